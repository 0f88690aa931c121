"""A tiny setting on real images: what the cells are measured on, without running a stage."""

import json
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from nsh.config import Params, change, read_params
from nsh.data.split import Rows, Split, write
from nsh.studies import cells as cells_module
from nsh.studies import workspace as workspaces
from nsh.studies.cells import Cell, Result
from nsh.studies.measure import main
from nsh.studies.workspace import Workspace
from nsh.system.files import write_json

COUNTS = {"gallery": 240, "train": 120, "query": 60}  # train out of the gallery


@pytest.fixture(scope="session")
def params() -> Params:
    return read_params()


@pytest.fixture(scope="session")
def digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Pixels of scikit-learn's handwritten digits (UCI ML repository, 1998), which are their own embedding."""
    pixels, labels = load_digits(return_X_y=True)
    return pixels.astype(np.float32), labels


@pytest.fixture
def workspace(tmp_path, digits) -> Workspace:
    """The digits as a setting that is already embedded; views are the pixels, a little shaken."""
    pixels, labels = digits
    folder = tmp_path / "digits"
    places = {"gallery": range(240), "train": range(120), "query": range(240, 300)}
    parts = {
        part: Rows(
            ids=[f"{place}" for place in rows],
            labels=[(int(labels[place]),) for place in rows],
            sha256=["0" * 64 for _ in rows],
        )
        for part, rows in places.items()
    }
    split = Split(
        data_set="digits",
        classes=tuple("0123456789"),
        seed=0,
        parts=parts,
        unreadable=[],
        duplicates_dropped=0,
    )
    write(split, folder / "data/split")
    embed = folder / "data/embed"
    embed.mkdir()
    for part, rows in places.items():
        np.save(embed / f"{part}.npy", pixels[list(rows)])
    noise = np.random.default_rng(0).normal(0, 1, (120, 4, 64))
    np.save(embed / "views.npy", (pixels[:120, None] + noise).astype(np.float16))
    write_json(embed / "embed.json", {"backbone": "pixels", "image_size": 8, "weights": "none", "views": 4})
    workspaces.finish(folder, {})
    return Workspace("digits", folder, "d" * 64)


@pytest.fixture
def measure_here(monkeypatch) -> Callable[[Sequence[Cell], Workspace], None]:
    """Measures cells as `run_cells` does, but in this process, which has torch already."""

    def measure(cells: Sequence[Cell], workspace: Workspace) -> None:
        for cell in cells:
            folder, code = cells_module._folder(cell, workspace), cells_module._code(cell.method)
            monkeypatch.setattr(
                "sys.argv", ["measure", str(workspace.folder), str(folder), code, json.dumps(cell.request)]
            )
            main()

    return measure


@pytest.fixture
def result(tmp_path):
    """A function that makes a measured cell whose queries' average precisions are `values`."""

    def make(method, bits, seed, values):
        folder = tmp_path / f"{method}-{bits}-{seed}-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        np.save(folder / "average_precision.npy", np.array(values, dtype=np.float64))
        figures = {"mAP_at_1000": float(np.mean(values)), "P_at_1000": 0.25, "P_at_H2": 0.125, "train_seconds": 61.7}
        cell = Cell(method=method, parameters={}, bits=bits, seed=seed, changed={})
        return Result(cell, folder, figures, [])

    return make


@pytest.fixture
def quick(params) -> Params:
    """params.yaml with a method that is done at once."""
    return change(params, {"methods.itq.iterations": 2})


@pytest.fixture
def start_study(tmp_path, monkeypatch, workspace) -> Callable[[ModuleType, Params], Callable[..., None]]:
    """A function that takes a study and its params.yaml, and makes its command: on the digits, in an empty folder."""

    def start(study: ModuleType, params: Params) -> Callable[..., None]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(study, "read_params", lambda: params)
        monkeypatch.setattr(study, "open_workspace", lambda arguments, params: workspace)

        def run(*arguments: str) -> None:
            monkeypatch.setattr("sys.argv", [study.__name__, *arguments])
            study.main()

        return run

    return start


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
