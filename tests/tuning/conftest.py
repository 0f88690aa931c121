"""A project that has what a search reads, and nothing else: no image, and no embedding of a query or of the gallery."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from nsh.data.split import Rows, Split, write
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.system.files import read_json, write_json

ROOT = Path(__file__).parents[2]
COUNT = 100
VALUES = {
    "split": {"train": COUNT, "gallery": 2 * COUNT, "query": 10},
    "compute": {"device": "cpu", "threads": 1},
    "evaluate": {"k": 20},
    "train": {"seed": 3},
}


@pytest.fixture
def write_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlflow_database: Path, draw_clusters: Callable
) -> Callable[..., Path]:
    """A function that makes the working folder a project of 100 training images around five centres, the classes."""

    def write_project(*, labelled: bool = True) -> Path:
        folder = tmp_path / "project"
        (folder / "data/embed").mkdir(parents=True)
        shutil.copy(mlflow_database, folder / "mlflow.db")
        params = yaml.safe_load((ROOT / "params.yaml").read_text())
        for block, values in VALUES.items():
            params[block].update(values)
        params["methods"]["cibhash"] |= {"epochs": 2, "batch": 16, "hidden": 16}
        (folder / "params.yaml").write_text(yaml.safe_dump(params))
        parts = {"train": COUNT, "query": 10, "gallery": 2 * COUNT}
        rows = {part: _draw_rows(part, count, labelled=labelled) for part, count in parts.items()}
        split = {"data_set": "folder", "classes": tuple("abcde") if labelled else None, "seed": 0}
        write(Split(**split, parts=rows, unreadable=[], duplicates_dropped=0), Project(folder).split)
        embeddings, data = Embeddings(Project(folder).embed), draw_clusters(COUNT)
        np.save(embeddings.path("train"), data.features)
        np.save(embeddings.views, data.views)
        write_json(embeddings.header_path, {"split_sha256": read_json(Project(folder).split_header)["sha256"]})
        monkeypatch.chdir(folder)
        return folder

    return write_project


def _draw_rows(part: str, count: int, *, labelled: bool) -> Rows:
    names = [f"{part}-{number}" for number in range(count)]
    digests = [hashlib.sha256(name.encode()).hexdigest() for name in names]
    return Rows(ids=names, labels=[(number % 5,) for number in range(count)] if labelled else None, sha256=digests)
