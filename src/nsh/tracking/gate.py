"""The gate between a version and its model's champion: both must have been measured on one split and protocol."""

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nsh.project.results import read_columns
from nsh.tracking.gain import measure_gain
from nsh.tracking.recorded import Recorded, read_recorded

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

MARGIN = 0.01  # of mAP: a version may be so much worse than the champion, by the mean over the queries
AVERAGE_PRECISION = "curves/average_precision.csv"  # of a run's files


@dataclass(frozen=True)
class Judgement:
    """Whether a version may replace the champion, and why."""

    accepted: bool
    reason: str


def judge(client: "MlflowClient", name: str, version: str, *, champion: str | None) -> Judgement:
    """Compare two versions of the model `name` query by query, or without average precisions by their figures.

    A version is accepted if there is no champion, or if it is not worse by more than `MARGIN`. It is refused if it was
    measured as a trial only, or never on the champion's split and protocol.
    """
    results = read_recorded(client, name)
    own = [result for result in results if result.version == version]
    if own and all(result.trial for result in own):
        return Judgement(False, f"version {version} is a trial (params.yaml, registry.trial)")
    if champion is None:
        return Judgement(True, "the first champion")
    others = [result for result in results if result.version == champion]
    for first in own:
        for second in others:
            if first.value is not None and first.is_comparable(second) and not (first.trial or second.trial):
                return _compare(client, first, second)
    return Judgement(
        False,
        f"version {version} ({_describe(own)}) and the champion, version {champion} ({_describe(others)}), were not "
        "measured alike",
    )


def _describe(results: list[Recorded]) -> str:
    return "; ".join(dict.fromkeys(map(str, results))) or "no run is known"


def _compare(client: "MlflowClient", first: Recorded, second: Recorded) -> Judgement:
    """Both have values."""
    gain = measure_gain(_average_precision(client, first), _average_precision(client, second))
    if gain is None:
        difference = float(first.value or 0) - float(second.value or 0)
        found = f"{first.figure} {difference:+.4f} against version {second.version}"
    else:
        difference = gain.mean
        found = f"{first.figure} {gain} on {gain.queries} queries against version {second.version}"
    if difference < -MARGIN:
        return Judgement(False, f"{found}, {-MARGIN:+.4f} is allowed")
    return Judgement(True, found)


def _average_precision(client: "MlflowClient", result: Recorded) -> NDArray[np.float64]:
    """Of each query, float64 [q]; [0] without labels, or if the run's files are gone."""
    from mlflow.exceptions import MlflowException

    with suppress(MlflowException, OSError), tempfile.TemporaryDirectory() as scratch:
        path = Path(client.download_artifacts(result.run_id, AVERAGE_PRECISION, scratch))
        return read_columns(path)["average_precision"]
    return np.empty(0)
