"""What a finished pair of method and code length left on disk, read as plain values.

It knows file names and their fields; nothing of MLflow.
"""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsh.core.metrics import CURVES
from nsh.errors import TrackingError
from nsh.system.files import read_json, sha256_file

TABLES = (*CURVES, "average_precision")  # in metrics/curves/


@dataclass(frozen=True)
class Pair:
    """One instance of the matrix."""

    method: str
    bits: int

    @property
    def key(self) -> str:
        """Name of its folders, of its DVC stages after the @, and of its run."""
        return f"{self.method}-{self.bits}"


@dataclass(frozen=True, kw_only=True)
class Results:
    """One pair's outputs, from train to evaluate."""

    folder: Path  # the project's
    pair: Pair
    head_sha256: str
    encoder: Path
    encoder_sha256: str
    sha256: str  # of the metrics file, which names its encoder by digest: it names this result
    history: list[dict[str, float]]  # one row an epoch
    metrics: dict[str, float]
    parity: dict[str, Any]
    split: dict[str, Any]
    files: tuple[Path, ...]  # metrics, history, parity and split, as they are
    curves: tuple[Path, ...]  # CSV
    precision_at_k: list[tuple[int, float]]  # (k, precision), k ascending

    @property
    def nonfinite(self) -> list[str]:
        """Names of the metrics that are NaN or infinite."""
        return [name for name, value in self.metrics.items() if not math.isfinite(value)]


def head_path(folder: Path, pair: Pair) -> Path:
    """Where training leaves the pair's head."""
    return folder / "models" / pair.key / "head.pt"


def read_results(folder: Path, pair: Pair) -> Results:
    """Read the outputs of `pair` in the project's `folder`.

    Raises:
        TrackingError: one of them is missing, or the metrics are of another encoder; the message names it.
    """
    model = folder / "models" / pair.key
    metrics, history, parity = folder / "metrics" / f"{pair.key}.json", model / "history.json", model / "parity.json"
    split, encoder, head = folder / "data" / "split" / "split.json", model / "encoder.onnx", head_path(folder, pair)
    curves = tuple(folder / "metrics" / "curves" / pair.key / f"{name}.csv" for name in TABLES)
    files = (metrics, history, parity, split)
    missing = [path.relative_to(folder).as_posix() for path in (head, encoder, *files, *curves) if not path.is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise TrackingError(f"{missing[0]}{more} missing: run `dvc repro`, or `dvc checkout` after git")
    encoder_sha256, measured = sha256_file(encoder), read_json(metrics)
    if measured["protocol"]["encoder_sha256"] != encoder_sha256:
        raise TrackingError(
            f"metrics/{pair.key}.json was measured with another encoder than models/{pair.key}/encoder.onnx: "
            "run `dvc checkout` after git, or `dvc repro`"
        )
    return Results(
        folder=folder,
        pair=pair,
        head_sha256=sha256_file(head),
        encoder=encoder,
        encoder_sha256=encoder_sha256,
        sha256=sha256_file(metrics),
        history=[numbers(row) for row in read_json(history)],
        metrics=numbers(measured),
        parity=read_json(parity),
        split=read_json(split),
        files=files,
        curves=curves,
        precision_at_k=_read_precision(curves[TABLES.index("precision_at_k")]),
    )


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The entries of `record` that are numbers: what is measured, without what describes it."""
    return {
        name: float(value)
        for name, value in record.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _read_precision(path: Path) -> list[tuple[int, float]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(int(row["k"]), float(row["precision"])) for row in csv.DictReader(file)]
