"""A small project on disk, up to and with the embed stage, made by the real stages from real photographs."""

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from nsh.methods import TrainingData, create

ROOT = Path(__file__).parents[2]
BITS = 12
PARAMS = {
    "matrix": {"methods": ["itq"], "bits": [BITS]},
    "dataset": {"name": "folder", "root": "images", "labels": "folder"},
    "split": {"train": 80, "gallery": 200, "query": 60},
    "backbone": {"weights": "weights.pt", "image_size": 64},
    "embed": {"views": 2},
    "compute": {"device": "cpu", "threads": 2},
}


@pytest.fixture
def stage() -> Callable[[str], ModuleType]:
    """Gives a stage's script as a module, without running it."""
    return load_stage


def load_stage(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"stage_{name}", ROOT / "pipeline" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the code to write into; programs that a test starts import it."""
    copy = tmp_path / "code"
    for name in ("src/nsh", "pipeline"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", f"{copy / 'src'}:{copy}")
    return copy


@pytest.fixture(scope="session")
def embedded(made_once, request) -> Path:
    """The project after download, split and embed, with a trained ITQ head and an empty MLflow database."""
    return made_once("embedded", lambda folder: _embed(folder, request.getfixturevalue))


def _embed(folder: Path, get: Callable[[str], Any]) -> None:
    folder.mkdir()
    shutil.copy(get("mlflow_database"), folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for row, pixels in enumerate(get("photographs")):
            path = Path(f"images/{'ab'[row % 2]}/{row:03}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
        torch.save(get("trained").backbone.network.state_dict(), "weights.pt")
        _write_params()
        for name in ("download", "split", "embed"):
            load_stage(name).main()
        _train()


def _write_params() -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    for block, values in PARAMS.items():
        params[block].update(values)
    Path("params.yaml").write_text(yaml.safe_dump(params))


def _train() -> None:
    data = TrainingData(np.load("data/embed/train.npy"), np.load("data/embed/views.npy"))
    head = create("itq", {"iterations": 5}).fit(data, bits=BITS, seed=0, report=lambda row: None, loop=None)
    Path(f"models/itq-{BITS}").mkdir(parents=True)
    torch.save(head.state_dict(), f"models/itq-{BITS}/head.pt")
    torch.save({}, f"models/itq-{BITS}/backbone.pt")


@pytest.fixture
def project(embedded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the embedded project, as the working folder."""
    folder = tmp_path / "project"
    shutil.copytree(embedded, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a stage, or an already loaded module of it, for ITQ."""

    def run_stage(script: str | ModuleType, *, bits: int = BITS, method: str = "itq") -> None:
        monkeypatch.setattr("sys.argv", ["stage", "--method", method, "--bits", str(bits)])
        (load_stage(script) if isinstance(script, str) else script).main()

    return run_stage


@pytest.fixture(scope="session")
def exported(embedded: Path, made_once) -> Path:
    """The project after the export stage."""

    def export(folder: Path) -> None:
        shutil.copytree(embedded, folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr("sys.argv", ["export", "--method", "itq", "--bits", str(BITS)])
            load_stage("export").main()

    return made_once("exported", export)
