"""Cells by the dozen: each in a process of its own, some at once, its result kept for good.

A result is found again by everything it depends on: method, parameters, bits, seed, split and embeddings, code and
libraries. Whatever stops the work, finished cells stay. Knows neither methods nor tables.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nsh.config import Params, change
from nsh.errors import ConfigError
from nsh.studies.measure import K, digest_of
from nsh.studies.workspace import Workspace
from nsh.system.files import read_json

LIBRARIES = ("torch", "numpy")
LOOK_AGAIN = 0.1  # seconds
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training: a method with all its parameters, at one code length, from one seed."""

    method: str
    parameters: Mapping[str, Any]
    bits: int
    seed: int
    changed: Mapping[str, Any]  # those of the parameters that differ from params.yaml, for the eye

    @property
    def name(self) -> str:
        """What progress calls it."""
        changed = "".join(f" {name}={value}" for name, value in self.changed.items())
        return f"{self.method}{changed} {self.bits} bits seed {self.seed}"

    @property
    def request(self) -> dict[str, Any]:
        """What `nsh.studies.measure` is asked."""
        return {"method": self.method, "parameters": self.parameters, "bits": self.bits, "seed": self.seed}


@dataclass(frozen=True)
class Result:
    """A measured cell."""

    cell: Cell
    folder: Path  # average_precision.npy, query.npy and the curves
    figures: dict[str, float]  # of `nsh.core.metrics`, and train_seconds
    history: list[dict[str, float]]

    def average_precision(self) -> NDArray[np.float64]:
        """Average precision of each query, float64 [queries]."""
        return np.load(self.folder / "average_precision.npy")  # type: ignore[no-any-return]

    def query_codes(self) -> NDArray[np.uint8]:
        """The queries' packed codes."""
        return np.load(self.folder / "query.npy")  # type: ignore[no-any-return]


def make_cell(params: Params, method: str, *, bits: int, seed: int, changed: Mapping[str, Any] | None = None) -> Cell:
    """A cell with the parameters of params.yaml, but those `changed`.

    Raises:
        ConfigError: no such method or parameter, or a value that is not allowed.
    """
    changed = changed or {}
    if method not in type(params.methods).model_fields:
        raise ConfigError(f"found method {method!r}, allowed are {', '.join(type(params.methods).model_fields)}")
    chosen = change(params, {f"methods.{method}.{name}": value for name, value in changed.items()})
    parameters = chosen.methods.model_dump(mode="json")[method]
    return Cell(method=method, parameters=parameters, bits=bits, seed=seed, changed=changed)


def read_result(cell: Cell, workspace: Workspace) -> Result | None:
    """The cell's result, None where it was not measured with this code on this data."""
    folder = _folder(cell, workspace)
    return _read(cell, folder) if (folder / "result.json").is_file() else None


def read_results(cells: Sequence[Cell], workspace: Workspace) -> list[Result]:
    """Those of the cells that are measured."""
    return [result for cell in cells if (result := read_result(cell, workspace)) is not None]


def read_requests(workspace: Workspace) -> list[dict[str, Any]]:
    """What was ever measured in the workspace, as `Cell.request`, also with other parameters, data or code."""
    return [read_json(path) for path in sorted((workspace.folder / "cells").glob("*/result.json"))]


def _read(cell: Cell, folder: Path) -> Result:
    document = read_json(folder / "result.json")
    history = document.pop("history")
    figures = {name: value for name, value in document.items() if name not in cell.request}
    return Result(cell, folder, figures, history)


def run_cells(cells: Sequence[Cell], workspace: Workspace, *, jobs: int, say: Say) -> list[str]:
    """Measure the cells that are not measured yet, `jobs` at a time, in the order given.

    Args:
        cells: what to measure.
        workspace: where.
        jobs: processes at once, each of one thread.
        say: gets a line for each cell, with an estimate of the time left.

    Returns:
        A sentence for each cell that failed; the others are measured all the same.
    """
    waiting = [cell for cell in cells if read_result(cell, workspace) is None]
    say(f"{workspace.setting}: {len(cells)} cells, {len(cells) - len(waiting)} of them measured before")
    clock, failures = _Clock(len(waiting)), list[str]()
    running: list[_Process] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_Process(waiting.pop(0), workspace))
            time.sleep(LOOK_AGAIN)
            for process in [process for process in running if process.is_over()]:
                running.remove(process)
                failure = process.failure()
                failures += [] if failure is None else [failure]
                say(f"{clock.tick()}  {failure or process.summary()}")
    finally:
        for process in running:
            process.stop()
    return failures


class _Process:
    """A cell while it is measured, with what its process says in a file."""

    def __init__(self, cell: Cell, workspace: Workspace) -> None:
        self.cell = cell
        self._folder = _folder(cell, workspace)
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._log = self._folder.with_name(f"{self._folder.name}.log")
        command = [sys.executable, "-m", "nsh.studies.measure", str(workspace.folder), str(self._folder)]
        command += [_code(cell.method), json.dumps(cell.request)]
        alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._file: IO[bytes] = self._log.open("wb")
        # Its standard input stays open as long as this process lives, and no longer.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self._file, stderr=self._file, env=os.environ | alone
        )

    def is_over(self) -> bool:
        return self._process.poll() is not None

    def failure(self) -> str | None:
        """Why an ended process failed, None if it did not."""
        self._close()
        code = self._process.returncode
        if code == 0:
            self._log.unlink()
            return None
        lines = [line for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        reason = f"killed by signal {-code}, perhaps for memory" if code < 0 else lines[-1] if lines else f"exit {code}"
        return f"{self.cell.name} failed: {reason} ({self._log})"

    def summary(self) -> str:
        """What an ended process found."""
        figures = _read(self.cell, self._folder).figures
        seconds = figures["train_seconds"]
        return f"{self.cell.name}: mAP@{K} {figures[f'mAP_at_{K}']:.4f}, trained in {seconds:.1f} s"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._close()
        self._log.unlink(missing_ok=True)

    def _close(self) -> None:
        self._file.close()
        if self._process.stdin is not None:
            self._process.stdin.close()


class _Clock:
    """Counts cells and guesses when the last one is done."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._start = total, 0, time.monotonic()

    def tick(self) -> str:
        self._done += 1
        left = (time.monotonic() - self._start) / self._done * (self._total - self._done)
        minutes = f"about {left / 60:.0f} min left" if left >= 60 else f"about {left:.0f} s left"
        return f"[{self._done}/{self._total}, {minutes}]"


def _folder(cell: Cell, workspace: Workspace) -> Path:
    """Named by all that the result depends on."""
    identity = {
        **cell.request,
        "data": workspace.digest,
        "code": _code(cell.method),
        "libraries": {name: version(name) for name in LIBRARIES},
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return workspace.folder / "cells" / f"{cell.method}-{cell.bits}-{cell.seed}-{digest[:16]}"


@cache
def _code(method: str) -> str:
    """As it was when this process first looked; `nsh.studies.measure` refuses if it is another by then."""
    return digest_of(method)
