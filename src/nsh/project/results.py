"""Writes and reads the results of the stage evaluate: the only description of metrics/.

metrics/<method>-<bits>.json      figures by name, and "protocol": how they were measured
metrics/curves/<method>-<bits>/   a CSV for each curve (see `nsh.core.metrics.CURVES`); average_precision.csv, one row a
                                  query in the order of the codes; nearest.csv, the nearest items of some queries, by
                                  rows in data/split; history.json, a copy of the training's
"""

import csv
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.metrics import CURVES, Evaluation, Table, to_csv
from nsh.errors import DataError
from nsh.project.paths import Pair, PairFiles
from nsh.system.files import read_json, write_json, write_text
from nsh.system.folders import atomic_folder

HISTORY = "history.json"
DECIMALS = 12  # of a figure: far below the effect of one query, and above a processor's last bits
Columns = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One pair's figures, curves and history.

    Attributes:
        pair: which.
        metrics: figures by name.
        protocol: how they were measured.
        curves: by name, see `nsh.core.metrics.CURVES`; columns without rows if there are no labels.
        average_precision: float64 [queries], in the order of the codes; [0] without labels.
        history: one record an epoch, with "epoch" and "loss".
    """

    pair: Pair
    metrics: dict[str, float]
    protocol: dict[str, Any]
    curves: dict[str, Columns]
    average_precision: NDArray[np.float64]
    history: list[dict[str, float]]

    @property
    def method(self) -> str:
        """The pair's method."""
        return self.pair.method

    @property
    def bits(self) -> int:
        """The pair's code length."""
        return self.pair.bits

    @property
    def key(self) -> str:
        """The pair's key."""
        return self.pair.key


def list_tables(files: PairFiles) -> list[Path]:
    """The CSV files of the curves and of the average precisions."""
    return [_table(files, name) for name in (*CURVES, "average_precision")]


def write_measured(files: PairFiles, evaluation: Evaluation, nearest: Table, *, protocol: Mapping[str, Any]) -> None:
    """Write a pair's results and a copy of its training's history, and print the figures.

    Args:
        files: the pair's.
        evaluation: figures, curves and average precisions.
        nearest: of `nsh.core.metrics.find_examples`, by rows in data/split.
        protocol: how the figures were measured.
    """
    average_precision: Table = {"average_precision": evaluation.average_precision}
    written = evaluation.curves | {"average_precision": average_precision, "nearest": nearest}
    with atomic_folder(files.curves) as folder:
        for name, table in written.items():
            write_text(folder / f"{name}.csv", to_csv(table))
        shutil.copyfile(files.history, folder / HISTORY)
    metrics = {name: round(value, DECIMALS) for name, value in evaluation.metrics.items()}
    write_json(files.metrics, metrics | {"protocol": dict(protocol)})
    for name, value in metrics.items():
        print(f"{files.pair.key}  {name:<26}{value:10.4f}")


def read_measured(files: PairFiles) -> Measured:
    """Read the results that `write_measured` has written.

    Raises:
        DataError: the pair has not been evaluated.
    """
    try:
        metrics = read_json(files.metrics)
        return Measured(
            pair=files.pair,
            protocol=metrics.pop("protocol"),
            metrics=metrics,
            curves={name: read_columns(_table(files, name)) for name in CURVES},
            average_precision=read_columns(_table(files, "average_precision"))["average_precision"],
            history=read_json(files.curves / HISTORY),
        )
    except FileNotFoundError as error:
        raise DataError(f"{error.filename} is not here: run `dvc repro evaluate@{files.pair.key}`") from error


def read_nearest(files: PairFiles) -> Columns:
    """The table of the nearest images."""
    return read_columns(_table(files, "nearest"))


def read_columns(path: Path) -> Columns:
    """Read a CSV file column by column: float64; [0] each without rows."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    return {name: np.array([float(row[name]) for row in rows]) for name in reader.fieldnames or ()}


def _table(files: PairFiles, name: str) -> Path:
    return files.curves / f"{name}.csv"
