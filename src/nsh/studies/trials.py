"""Trials: what is asked of each, where its files lie, and which are measured. Starts no process.

The folder of a trial is laid out as a project's and named by all that its results depend on: method, parameters, bits,
seed, split and embeddings, code and libraries.

trial.json               what was asked, and "train_seconds"
query.npy, gallery.npy   packed codes, in the order of the split
metrics/, parity.json    as the stages evaluate and export leave them
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.config import Params, change
from nsh.errors import ConfigError
from nsh.project.paths import Pair, PairFiles
from nsh.project.results import Measured, read_measured
from nsh.studies.protocol import digest_of
from nsh.studies.setting import Setting
from nsh.system.files import read_json

LIBRARIES = ("torch", "numpy", "onnx", "onnxruntime")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A method with all its parameters, at one code length, from one seed."""

    method: str
    parameters: Mapping[str, Any]
    bits: int
    seed: int
    changed: Mapping[str, Any] = field(default_factory=dict, compare=False)  # of the parameters, from params.yaml

    @property
    def name(self) -> str:
        """What progress calls it."""
        changed = "".join(f" {name}={value}" for name, value in self.changed.items())
        return f"{self.method}{changed} {self.bits} bits seed {self.seed}"

    @property
    def request(self) -> dict[str, Any]:
        """What `nsh.studies.measure` is asked."""
        return {name: value for name, value in asdict(self).items() if name != "changed"}


@dataclass(frozen=True)
class Result:
    """What a measured trial has left."""

    trial: Trial
    folder: Path
    train_seconds: float

    @cached_property
    def measured(self) -> Measured:
        """Figures, curves and history, as of a pair of the pipeline."""
        return read_measured(PairFiles(self.folder, Pair(self.trial.method, self.trial.bits)))

    @property
    def metrics(self) -> dict[str, float]:
        """Those of `nsh.core.metrics`, and train_seconds."""
        return self.measured.metrics | {"train_seconds": self.train_seconds}

    @property
    def average_precision(self) -> NDArray[np.float64]:
        """Of each query, float64 [queries]."""
        return self.measured.average_precision

    def codes(self, part: str) -> NDArray[np.uint8]:
        """The packed codes of "query" or "gallery", uint8 [n, ceil(bits / 8)]."""
        return np.load(self.folder / f"{part}.npy")  # type: ignore[no-any-return]


def make_trial(params: Params, method: str, *, bits: int, seed: int, changed: Mapping[str, Any] | None = None) -> Trial:
    """A trial with the parameters of params.yaml, but those `changed`.

    Raises:
        ConfigError: no such method or parameter, or a value that is not allowed.
    """
    defaults = params.methods.model_dump(mode="json")
    if method not in defaults:
        raise ConfigError(f"found method {method!r}, allowed are {', '.join(defaults)}")
    chosen = change(params, {f"methods.{method}.{name}": value for name, value in (changed or {}).items()})
    parameters = chosen.methods.model_dump(mode="json")[method]
    different = {name: value for name, value in parameters.items() if value != defaults[method][name]}
    return Trial(method=method, parameters=parameters, bits=bits, seed=seed, changed=different)


def folder_of(trial: Trial, setting: Setting) -> Path:
    """Where the files of a trial lie, or will lie."""
    identity = {
        **trial.request,
        "data": setting.digest,
        "code": code_of(trial.method),
        "libraries": {name: version(name) for name in LIBRARIES},
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return setting.trials / f"{trial.method}-{trial.bits}-{trial.seed}-{digest[:16]}"


def read_result(trial: Trial, setting: Setting) -> Result | None:
    """The result of a trial, None where it was not measured with this code on this data."""
    return _read(folder_of(trial, setting))


def read_results(setting: Setting) -> list[Result]:
    """Everything that was measured with this code on this data."""
    found = [result for path in sorted(setting.trials.glob("*/trial.json")) if (result := _read(path.parent))]
    return [result for result in found if result.folder == folder_of(result.trial, setting)]


def select(results: Sequence[Result], trials: Sequence[Trial]) -> list[Result]:
    """The results of these trials, in their order."""
    return [result for trial in trials for result in results if result.trial == trial]


@cache
def code_of(method: str) -> str:
    """As it was when this process first looked; `nsh.studies.measure` refuses if it is another by then."""
    return digest_of(method)


def _read(folder: Path) -> Result | None:
    try:
        document = read_json(folder / "trial.json")
    except FileNotFoundError:
        return None
    seconds = document.pop("train_seconds")
    return Result(Trial(**document), folder, seconds)
