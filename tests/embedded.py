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

ROOT = Path(__file__).parents[1]
BITS = 12
PARAMS = {
    "matrix": {"methods": ["itq"], "bits": [BITS]},
    "dataset": {"name": "folder", "root": "images", "labels": "folder"},
    "split": {"train": 80, "gallery": 200, "query": 60},
    "backbone": {"name": "mobilenet_v2", "weights": "weights.pt", "image_size": 64},
    "embed": {"views": 2},
    "compute": {"device": "cpu", "threads": 2},
}


def load_stage(name: str) -> ModuleType:
    """A stage's script as a module, without running it."""
    spec = importlib.util.spec_from_file_location(f"stage_{name}", ROOT / "pipeline" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_embedded(folder: Path, get: Callable[[str], Any]) -> None:
    """Download, split and embed in a new `folder`, with a trained ITQ head and an empty MLflow database.

    `get` gives the session's fixtures by name. The backbone's graph is theirs too: an export takes longer than all the
    rest, and `tests/pipeline/test_embed.py` compares it with the stage's own.
    """
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
        download, split, embed = (load_stage(name) for name in ("download", "split", "embed"))
        embed.export_backbone = lambda backbone, *, image_size: get("backbone_model")
        for stage in (download, split, embed):
            stage.main()
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
