"""The results of a pair on disk, for recording. Knows nothing of MLflow."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsh.core.identity import read_contract
from nsh.errors import CodesError, TrackingError
from nsh.project.paths import Pair, Project
from nsh.project.results import HISTORY, Measured, list_tables, read_measured
from nsh.system.files import read_json, sha256_file, sha256_json


@dataclass(frozen=True, kw_only=True)
class Results:
    """One pair's outputs of the stages train to evaluate."""

    pair: Pair
    measured: Measured
    head_sha256: str
    encoder: Path
    encoder_identity: str
    sha256: str  # of the metrics file, which holds its encoder's identity; it identifies the result
    history: list[dict[str, float]]  # one row an epoch
    metrics: dict[str, float]
    parity: dict[str, Any]
    split: dict[str, Any]
    files: tuple[Path, ...]  # metrics, history, parity and split
    curves: tuple[Path, ...]  # CSV

    @property
    def nonfinite(self) -> list[str]:
        """Names of the metrics that are NaN or infinite."""
        return [name for name, value in self.metrics.items() if not math.isfinite(value)]

    @property
    def protocol_sha256(self) -> str:
        """Digest of how the figures were measured: equal for encoders that were measured alike."""
        return sha256_json(shared_protocol(self.measured.protocol))

    @property
    def precision_at_k(self) -> list[tuple[int, float]]:
        """The curve (k, precision), k ascending."""
        curve = self.measured.curves["precision_at_k"]
        return [(int(k), float(precision)) for k, precision in zip(curve["k"], curve["precision"], strict=True)]


def read_results(folder: Path, pair: Pair) -> Results:
    """Read the outputs of `pair` in the project's `folder`.

    Raises:
        TrackingError: an output is missing, the encoder cannot be read, or the metrics are of another one.
    """
    project = Project(folder)
    made, split = project.of(pair), project.split_header
    files, curves = (made.metrics, made.history, made.parity, split), tuple(list_tables(made))
    _require_files(folder, [made.head, made.encoder, *files, *curves, made.curves / HISTORY])
    measured, identity = read_measured(made), _identity_of(made.encoder)
    if measured.protocol.get("encoder_identity") != identity:
        raise TrackingError(
            f"{made.metrics.relative_to(folder)} was measured with another encoder than "
            f"{made.encoder.relative_to(folder)}: run `dvc checkout` after git, or `dvc repro`"
        )
    return Results(
        pair=pair,
        measured=measured,
        head_sha256=sha256_file(made.head),
        encoder=made.encoder,
        encoder_identity=identity,
        sha256=sha256_file(made.metrics),
        history=[numbers(row) for row in measured.history],
        metrics=numbers(measured.metrics),
        parity=read_json(made.parity),
        split=read_json(split),
        files=files,
        curves=curves,
    )


def shared_protocol(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a protocol that are equal for encoders that were measured alike."""
    return {name: value for name, value in protocol.items() if name not in ("method", "bits", "encoder_identity")}


def _identity_of(encoder: Path) -> str:
    try:
        return read_contract(encoder.read_bytes(), name=str(encoder)).identity
    except CodesError as error:
        raise TrackingError(str(error)) from error


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The entries of `record` that are numbers."""
    return {
        name: float(value)
        for name, value in record.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _require_files(folder: Path, paths: list[Path]) -> None:
    missing = [path.relative_to(folder).as_posix() for path in paths if not path.is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise TrackingError(f"{missing[0]}{more} missing: run `dvc repro`, or `dvc checkout` after git")
