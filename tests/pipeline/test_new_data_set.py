"""A data set is added by the steps that CONTRIBUTING names: its file and one line of the registry, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nsh.data.split import read_header, read_part

ROOT = Path(__file__).parents[2]
DATA_SET = '''
"""Toy: forty squares, each of its own grey."""

import numpy as np

from nsh.data.imageset import ArrayImages


def fetch(*, raw, say, **_):
    raw.mkdir(parents=True)
    np.save(raw / "greys.npy", np.arange(40, dtype=np.uint8))
    say(f"{raw.name}: made")


def open_images(*, raw, **_):
    greys = np.load(raw / "greys.npy")
    pixels = np.broadcast_to(greys[:, None, None], (40, 8, 8))
    labels = (greys >= 20).astype(np.uint8)
    parts = {"train": greys % 4 > 0, "test": greys % 4 == 0}
    return ArrayImages(
        raw.name,
        {part: pixels[rows] for part, rows in parts.items()},
        {part: labels[rows] for part, rows in parts.items()},
        classes=("dark", "light"),
    )
'''
STEPS = """
from pathlib import Path
from nsh.config import read_params
from nsh.data import registry
from nsh.system.command import run_command
from pipeline import check, split

check.main()
chosen = read_params().dataset
registry.fetch(chosen.name, raw=Path("data/raw"), root=chosen.root)  # as the stage download does
split.main()
params = Path("params.yaml")
params.write_text(params.read_text().replace("name: toy", "name: toys"))
run_command(check.main)
"""


def test_a_new_data_set_is_its_file_and_one_line(tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code / "src/nsh/data/toy.py").write_text(DATA_SET.lstrip())
    registry = code / "src/nsh/data/registry.py"
    text = registry.read_text().replace("import cifar10,", "import toy, cifar10,", 1)
    registry.write_text(text.replace('    "cifar10": cifar10,\n', '    "cifar10": cifar10,\n    "toy": toy,\n', 1))
    monkeypatch.chdir(tmp_path)
    values = yaml.safe_load((ROOT / "params.yaml").read_text())
    values["dataset"]["name"] = "toy"
    values["split"].update(train=8, gallery=None, query=4)
    Path("params.yaml").write_text(yaml.safe_dump(values))
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=False)
    assert "toy: made\n" in done.stdout, done.stderr
    header = read_header(Path("data/split"))
    assert (header["data_set"], header["classes"]) == ("toy", ["dark", "light"])
    query = read_part(Path("data/split"), "query")
    assert [name.partition("/")[0] for name in query.ids] == ["test"] * 4
    assert query.labels.sum(axis=1).tolist() == [1] * 4
    assert done.returncode == 2
    said = "dataset.name: found toys, allowed are fashion-mnist, cifar10, toy, nuswide, coco, folder\n"
    assert done.stderr.endswith(said)
