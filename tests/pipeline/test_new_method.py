"""A method is added by the steps that CONTRIBUTING names: its file and one line of the registry, and nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from nsh.system.files import read_json

ROOT = Path(__file__).parents[2]
METHOD = '''
"""Toy: the signs of the first features, each beside a threshold."""

from dataclasses import dataclass

import torch

from nsh.methods import HashHead, TrainingData
from nsh.ranges import Positive


class ToyHead(HashHead):
    """Features less what is subtracted."""

    def __init__(self, dim, bits):
        super().__init__(dim, bits)
        self.register_buffer("threshold", torch.zeros(bits))

    def forward(self, embeddings):
        return embeddings[:, : self.bits] - self.threshold


@dataclass(frozen=True, kw_only=True)
class Toy:
    """Nobody, "A toy", 2026."""

    height: Positive = 0.5  # of the threshold, in means

    name = "toy"

    def fit(self, data: TrainingData, *, bits, seed, report, loop):
        head = self.head(data.dim, bits)
        head.threshold.copy_(torch.from_numpy(data.features[:, :bits].mean(axis=0)) * self.height)
        report({"epoch": 1, "loss": self.height})
        return head

    def head(self, dim, bits):
        return ToyHead(dim, bits)
'''
STEPS = """
import sys
from pathlib import Path
from nsh.cli import params_defaults
from nsh.system.command import run_command
from pipeline import check, train

params_defaults()
check.main()
sys.argv = ["train", "--method", "toy", "--bits", "8"]
train.main()
params = Path("params.yaml")
params.write_text(params.read_text().replace("height: 0.5", "height: -1.0"))
run_command(check.main)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlflow_database: Path) -> Path:
    """The working folder: params.yaml with the method in its matrix, embeddings and an empty MLflow database."""
    folder = tmp_path / "project"
    (folder / "data/embed").mkdir(parents=True)
    monkeypatch.chdir(folder)
    shutil.copy(mlflow_database, "mlflow.db")
    values = yaml.safe_load((ROOT / "params.yaml").read_text())
    values["matrix"]["methods"] = ["toy"]
    values["compute"].update(device="cpu", threads=1)
    Path("params.yaml").write_text(yaml.safe_dump(values))
    features = np.random.default_rng(0).normal(size=(40, 12)).astype(np.float32)
    np.save("data/embed/train.npy", features)
    np.save("data/embed/views.npy", features[:, None].repeat(2, axis=1).astype(np.float16))
    return folder


def test_a_new_method_is_its_file_and_one_line(folder: Path, code: Path) -> None:
    methods = code / "src/nsh/methods"
    (methods / "toy.py").write_text(METHOD.lstrip())
    registry = methods / "__init__.py"
    registry.write_text(registry.read_text().replace('"Itq",\n', '"Itq",\n    "toy": "Toy",\n', 1))
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=False)
    assert (folder / "models/toy-8/head.pt").is_file(), done.stderr
    assert read_json(folder / "models/toy-8/history.json") == [{"epoch": 1, "loss": 0.5}]
    block = (
        '  toy:                      # Nobody, "A toy", 2026\n    height: -1.0             # of the threshold, in means'
    )
    assert block in (folder / "params.yaml").read_text()
    said = "methods.toy.height: found -1.0; input should be greater than 0\n"
    assert (done.returncode, done.stderr[-len(said) :]) == (2, said)
