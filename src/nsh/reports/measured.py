"""What evaluate and train left for each pair of the matrix, read as plain values. Draws and judges nothing."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.metrics import CURVES
from nsh.errors import DataError
from nsh.system.files import read_json

Columns = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One pair's figures, curves and history."""

    method: str
    bits: int
    metrics: dict[str, float]
    protocol: dict[str, Any]
    curves: dict[str, Columns]  # by name, see `nsh.core.metrics.CURVES`; columns without rows if nothing is labelled
    average_precision: NDArray[np.float64]  # [queries], in the order of the codes; [0] if nothing is labelled
    history: list[dict[str, float]]  # one row an epoch, with "epoch" and "loss"

    @property
    def key(self) -> str:
        """Name of its files."""
        return f"{self.method}-{self.bits}"


@dataclass(frozen=True)
class Heading:
    """What the table is of."""

    data_set: str
    split: Mapping[str, Any]  # split.json
    backbone: Mapping[str, Any]  # embed.json
    k: int
    ceiling: Mapping[str, float]  # of the frozen backbone's float embedding by cosine; empty without labels
    mode: str  # train.mode: "frozen", or "finetune", where methods that learn by gradient have tuned the backbone


def read_measured(folder: Path, *, methods: Iterable[str], bits: Iterable[int]) -> list[Measured]:
    """Read every pair of `methods` x `bits` in the project's `folder`, methods in the order given, bits ascending.

    Raises:
        DataError: a pair has not been evaluated.
    """
    return [_read_pair(folder, method, length) for method in methods for length in sorted(set(bits))]


def best_pair(measured: Iterable[Measured], *, k: int) -> Measured:
    """The pair with the highest mAP at k, and without labels the first of the longest codes."""
    return max(measured, key=lambda item: (item.metrics.get(f"mAP_at_{k}", 0.0), item.bits))


def _read_pair(folder: Path, method: str, bits: int) -> Measured:
    key = f"{method}-{bits}"
    try:
        document = read_json(folder / "metrics" / f"{key}.json")
        tables = folder / "metrics" / "curves" / key
        curves = {name: read_columns(tables / f"{name}.csv") for name in CURVES}
        precisions = read_columns(tables / "average_precision.csv")["average_precision"]
        history = read_json(tables / "history.json")
    except FileNotFoundError as error:
        raise DataError(f"{error.filename} is not here: run `dvc repro evaluate@{key}`") from error
    protocol = document.pop("protocol")
    return Measured(
        method=method,
        bits=bits,
        metrics=document,
        protocol=protocol,
        curves=curves,
        average_precision=precisions,
        history=history,
    )


def read_columns(path: Path) -> Columns:
    """A curve's CSV, column by column: float64, [0] each where there are no rows."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    return {name: np.array([float(row[name]) for row in rows]) for name in reader.fieldnames or ()}
