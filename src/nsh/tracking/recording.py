"""Records results on disk in MLflow: by a stage in its run, and by `nsh track sync` for stages that DVC skipped.

A result is recorded once: its run has the tag `result_sha256`, which is set last. So an interrupted recording is
repeated and a complete one is not.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nsh.config import Params
from nsh.errors import TrackingError
from nsh.project.paths import Pair, Project, pairs_of
from nsh.tracking.challenger import choose_challenger
from nsh.tracking.lineage import changed_parameters, revision_tags
from nsh.tracking.recorded import PROTOCOL, SPLIT, TRIAL, VERSION
from nsh.tracking.registration import register
from nsh.tracking.results import Results, read_results
from nsh.tracking.runs import CURVE_PREFIX, create_run, end_dead_runs, experiment_of, find_runs, log_metrics
from nsh.tracking.store import Store, open_store, plain_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from mlflow.entities import Run

K_PREFIX = "curve/"  # of figures over k, not over epochs
DIGEST_LENGTH = 32  # characters; MLflow keeps 36 of a data set's digest


@dataclass(frozen=True)
class Outcome:
    """What `sync` did with one pair."""

    key: str
    done: str  # "added", "there already" or "skipped"
    reason: str = ""


def record(folder: Path, params: Params, *, pair: Pair) -> None:
    """Add a pair's results to the run that trained its head, or to a new run; called after the metrics are written.

    An error of MLflow is a warning: the results are on disk, and `sync` records them later.
    """
    try:
        _record(open_store(folder, experiment=experiment_of(params)), folder, params, pair=pair)
    except TrackingError as error:
        print(f"warning: {error}; the results are on disk, `nsh track sync` records them", file=sys.stderr)


def sync(folder: Path, params: Params) -> list[Outcome]:
    """Record every pair of the matrix whose results are on disk and not yet in MLflow. A second call adds nothing.

    Running runs whose process has died are ended as KILLED.

    Raises:
        TrackingError: MLflow cannot be used, or a pair's metrics are not finite.
    """
    store = open_store(folder, experiment=experiment_of(params))
    with plain_errors(store.uri):
        end_dead_runs(store)
    pairs = pairs_of(params.matrix.methods, params.matrix.bits)
    return [_sync_pair(store, folder, params, pair=pair) for pair in pairs]


def _sync_pair(store: Store, folder: Path, params: Params, *, pair: Pair) -> Outcome:
    changed = changed_parameters(folder, pair)
    if changed:
        return Outcome(
            pair.key, "skipped", f"{', '.join(changed)} changed since its results were made: run `dvc repro`"
        )
    try:
        read_results(folder, pair)
    except TrackingError as error:
        return Outcome(pair.key, "skipped", str(error))
    added = _record(store, folder, params, pair=pair)
    return Outcome(pair.key, "added" if added else "there already")


def _record(store: Store, folder: Path, params: Params, *, pair: Pair) -> bool:
    """Record one pair; return False if it was recorded before.

    Raises:
        TrackingError: a result is missing, or a metric is not finite (its run is then marked FAILED).
    """
    results = read_results(folder, pair)
    with plain_errors(store.uri):
        run = _choose_run(find_runs(store, head_sha256=results.head_sha256), results)
        if run is not None and _result_of(run) == results.sha256:
            return False
        tags = revision_tags(folder, pair) | {
            "head_sha256": results.head_sha256,
            SPLIT: _split(results),
            PROTOCOL: results.protocol_sha256,
            TRIAL: str(params.registry.trial).lower(),
        }
        if run is None:
            run_id = create_run(store, folder, params, pair, tags=tags | {"source": "dvc-cache"})
        else:
            run_id = str(run.info.run_id)
            _set_tags(store, run_id, tags)
        _add(store, run_id, results, tags=tags)
    return True


def _choose_run(runs: "list[Run]", results: Results) -> "Run | None":
    """The run with this result, else the newest run if it has no result."""
    same = [run for run in runs if _result_of(run) == results.sha256]
    if runs and _result_of(runs[0]) is None:
        return runs[0]
    return same[0] if same else None


def _add(store: Store, run_id: str, results: Results, *, tags: dict[str, str]) -> None:
    """Add the results to the run; `result_sha256` comes last."""
    if results.nonfinite:
        _set_tags(store, run_id, {"nonfinite": "true"})
        store.client.set_terminated(run_id, "FAILED")
        raise TrackingError(
            f"{results.pair.key}: {', '.join(results.nonfinite)} is not finite, nothing is recorded: evaluate it again"
        )
    run = store.client.get_run(run_id)
    _add_curves(store, run, results)
    _add_data_set(store, run, results)
    for path in results.files:
        store.client.log_artifact(run_id, str(path))
    for path in results.curves:
        store.client.log_artifact(run_id, str(path), "curves")
    for name, figure in _draw_pair(results).items():
        store.client.log_figure(run_id, figure, f"plots/{name}")
    version = register(store, run_id, results, tags=tags)
    _set_tags(store, run_id, {VERSION: version, "encoder_identity": results.encoder_identity})
    choose_challenger(store.client, version.partition("/")[0])
    store.client.set_terminated(run_id, "FINISHED", end_time=run.info.end_time)  # the training's, if there was one
    _set_tags(store, run_id, {"result_sha256": results.sha256})


def _add_curves(store: Store, run: "Run", results: Results) -> None:
    """Add final figures, precision over k, and the epochs that an interrupted run did not report."""
    from mlflow.entities import Metric

    run_id, time = str(run.info.run_id), int(run.info.start_time)  # a fixed time: logged twice, it is one point
    metrics = [Metric(name, value, time, 0) for name, value in results.metrics.items()]
    metrics += [Metric(f"{K_PREFIX}precision_at_k", value, time, k) for k, value in _thin(results.precision_at_k)]
    steps = {
        name: {point.step for point in store.client.get_metric_history(run_id, name)}
        for name in run.data.metrics
        if name.startswith(CURVE_PREFIX)
    }
    for row in results.history:
        step = int(row["epoch"])
        values = {CURVE_PREFIX + name: value for name, value in row.items() if name != "epoch"}
        metrics += [
            Metric(name, value, time, step) for name, value in values.items() if step not in steps.get(name, ())
        ]
    log_metrics(store, run_id, metrics)


def _thin(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """About sixty of the points (k, value), evenly spaced in the logarithm of k, including first and last."""
    if not points:
        return []
    wanted = set(np.geomspace(1, len(points), 80).round().astype(int).tolist())
    return [point for place, point in enumerate(points, start=1) if place in wanted]


def _draw_pair(results: Results) -> "dict[str, Figure]":
    """The report's pictures for one pair."""
    from nsh.reports.pictures import draw_all

    return draw_all([results.measured])


def _add_data_set(store: Store, run: "Run", results: Results) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    if run.inputs and run.inputs.dataset_inputs:
        return
    split = results.split
    profile = json.dumps({name: int(count) for name, count in split["counts"].items()})
    data_set = Dataset(
        name=split["data_set"],
        digest=_split(results)[:DIGEST_LENGTH],
        source_type="local",
        source=json.dumps({"uri": Project().split.as_posix(), "sha256": _split(results)}),
        profile=profile,
    )
    store.client.log_inputs(run.info.run_id, [DatasetInput(data_set, [InputTag("mlflow.data.context", "training")])])


def _split(results: Results) -> str:
    return str(results.split["sha256"])


def _result_of(run: "Run") -> str | None:
    tag = run.data.tags.get("result_sha256")
    return None if tag is None else str(tag)


def _set_tags(store: Store, run_id: str, tags: dict[str, str]) -> None:
    for name, value in tags.items():
        store.client.set_tag(run_id, name, value)
