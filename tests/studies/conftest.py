"""A tiny setting on real images, and results as trials leave them."""

import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from tests.embedded import make_embedded

from nsh.config import Params, change, read_params
from nsh.core.codes import binarize, pack
from nsh.core.metrics import CURVES, Evaluation, evaluate, find_examples
from nsh.data.split import read_part
from nsh.project.paths import Pair, PairFiles, Project
from nsh.project.results import write_measured
from nsh.studies.protocol import K
from nsh.studies.setting import Setting
from nsh.studies.trials import Result, Trial, folder_of
from nsh.system.files import write_json


@pytest.fixture(scope="session")
def params() -> Params:
    return read_params()


@pytest.fixture
def quick(params) -> Params:
    """params.yaml with a method that is done at once."""
    return change(params, {"methods.itq.iterations": 2})


@pytest.fixture(scope="session")
def embedded(made_once, request) -> Path:
    """The project of the stages' tests."""
    return made_once("embedded", lambda folder: make_embedded(folder, request.getfixturevalue))


@pytest.fixture(scope="session")
def setting_folder(embedded, tmp_path_factory) -> Path:
    """What `nsh.studies.setting.prepare` leaves: params.yaml, which knows where the images are, and data/."""
    folder = tmp_path_factory.mktemp("settings") / "tiny"
    folder.mkdir()
    (folder / "data").symlink_to(embedded / "data")
    values = yaml.safe_load((embedded / "params.yaml").read_text())
    values["dataset"]["root"] = str(embedded / "images")
    (folder / "params.yaml").write_text(yaml.safe_dump(values))
    return folder


@pytest.fixture
def setting(tmp_path, setting_folder) -> Setting:
    """80 training images of a gallery of 200, and 60 queries, of two classes, embedded; nothing is measured."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    for path in setting_folder.iterdir():
        (folder / path.name).symlink_to(path)
    return Setting("tiny", Project(folder), "d" * 64)


def write_result(folder: Path, trial: Trial, found: Evaluation, codes: dict[str, NDArray[np.uint8]]) -> None:
    """What `nsh.studies.measure` leaves of a trial."""
    files = PairFiles(folder, Pair(trial.method, trial.bits))
    write_json(files.history, [{"epoch": 1, "loss": 0.5}])
    nearest = find_examples(codes["query"], codes["gallery"], None, seed=0)
    write_measured(files, found, nearest, protocol={"k": K})
    for part, values in codes.items():
        np.save(folder / f"{part}.npy", values)
    write_json(folder / "trial.json", trial.request | {"train_seconds": 61.7})


@pytest.fixture
def leave(setting) -> Callable[[Sequence[Trial]], None]:
    """A function that leaves results of trials without training: of codes that are drawn, as their requests seed it."""
    parts = {part: read_part(setting.project.split, part) for part in ("query", "gallery")}

    def leave(trials: Sequence[Trial]) -> None:
        for trial in trials:
            generator = np.random.default_rng(zlib.crc32(json.dumps(trial.request).encode()))
            logits = {name: generator.random((len(part.ids), trial.bits)) - 0.5 for name, part in parts.items()}
            codes = {name: pack(binarize(values)) for name, values in logits.items()}
            labels = [part.labels for part in parts.values()]
            found = evaluate(*codes.values(), *labels, bits=trial.bits, k=K, query_logits=logits["query"])
            write_result(folder_of(trial, setting), trial, found, codes)

    return leave


@pytest.fixture
def result(tmp_path):
    """A function that makes the result of a trial whose queries' average precisions are `values`."""

    def make(method, bits, seed, values):
        folder = tmp_path / f"{method}-{bits}-{seed}-{len(list(tmp_path.iterdir()))}"
        metrics = {"mAP_at_1000": float(np.mean(values)), "mAP_at_1000_reranked": 0.375}
        metrics |= {"P_at_1000": 0.25, "P_at_H2": 0.125}
        curves = {name: {column: np.empty(0) for column in columns} for name, columns in CURVES.items()}
        trial = Trial(method=method, parameters={}, bits=bits, seed=seed)
        codes = {part: np.zeros((1, -(-bits // 8)), np.uint8) for part in ("query", "gallery")}
        write_result(folder, trial, Evaluation(metrics, curves, np.array(values, np.float64)), codes)
        return Result(trial, folder, 61.7)

    return make


@pytest.fixture
def start_study(tmp_path, monkeypatch, setting) -> Callable[[ModuleType, Params], Callable[..., None]]:
    """A function that takes a study and its params.yaml, and makes its command: in an empty folder, on `setting`."""

    def start(study: ModuleType, params: Params) -> Callable[..., None]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(study, "read_params", lambda: params)

        def open_setting(arguments, params):
            return Setting(arguments.setting, setting.project, setting.digest)

        monkeypatch.setattr(study, "open_setting", open_setting)

        def run(*arguments: str) -> None:
            monkeypatch.setattr("sys.argv", [study.__name__, *arguments])
            study.main()

        return run

    return start
