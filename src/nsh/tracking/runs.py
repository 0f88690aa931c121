"""A pair's run in MLflow: name, parameters, tags, look-up, and the end of runs whose process died."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsh.config import Params
from nsh.core.nested import flatten
from nsh.project.paths import Pair
from nsh.tracking.lineage import committed_differences, origin_tags
from nsh.tracking.processes import has_ended, this_process
from nsh.tracking.store import Store, all_pages

if TYPE_CHECKING:
    from mlflow.entities import Metric, Param, Run

CURVE_PREFIX = "train/"  # of figures of each epoch; final figures have no prefix
PROCESS = "process"  # tag: the process that writes the run
NAMED_DIFFERENCES = 3  # in a run's name; the tag `changed` has all
BATCH = 1000  # metrics in one request, MLflow's limit


def experiment_of(params: Params) -> str:
    """The experiment of a pair's run: one for each data set, because only its runs can be compared."""
    return params.dataset.name


def create_run(store: Store, folder: Path, params: Params, pair: Pair, *, tags: Mapping[str, str]) -> str:
    """Open a run with its parameters and return its id.

    Its name and tags distinguish it from other runs of the pair: differences from the committed params.yaml, DVC's name
    of the experiment, user and program.
    """
    values = _values(params, pair)
    changed = committed_differences(folder, values)
    origin = origin_tags() | {PROCESS: this_process(), "changed": _list(changed)}
    run = store.client.create_run(
        store.experiment_id,
        start_time=int(time.time() * 1000),
        tags={name: value for name, value in (origin | dict(tags)).items() if value},
        run_name=_name(pair, changed, experiment=origin.get("dvc_experiment", "")),
    )
    run_id = str(run.info.run_id)
    store.client.log_batch(run_id, params=_entities(values))
    return run_id


def end_dead_runs(store: Store) -> None:
    """End every run whose process died without ending it (kill -9, a lost machine) as KILLED, at its last metric."""
    experiments = [experiment.experiment_id for experiment in store.client.search_experiments()]
    for run in store.client.search_runs(experiments, "attributes.status = 'RUNNING'"):
        if has_ended(run.data.tags.get(PROCESS, "")):
            last = [store.client.get_metric_history(run.info.run_id, name)[-1].timestamp for name in run.data.metrics]
            store.client.set_terminated(run.info.run_id, "KILLED", end_time=max([run.info.start_time, *last]))


def find_runs(store: Store, *, head_sha256: str) -> "list[Run]":
    """The runs of the head with this digest, newest first."""
    return all_pages(
        store.client.search_runs,
        [store.experiment_id],
        f"tags.head_sha256 = '{head_sha256}'",
        order_by=["attributes.start_time DESC"],
    )


def _values(params: Params, pair: Pair) -> dict[str, Any]:
    """The pair's parameters by their keys in params.yaml, without the matrix and without other methods'."""
    values = params.model_dump(mode="json", exclude={"matrix"})
    values["methods"] = {pair.method: values["methods"][pair.method]}
    return {"method": pair.method, "bits": pair.bits} | flatten(values)


def _entities(values: Mapping[str, Any]) -> "list[Param]":
    from mlflow.entities import Param

    return [Param(name, str(value)) for name, value in values.items()]


def _list(changed: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in changed.items())


def _name(pair: Pair, changed: Mapping[str, Any], *, experiment: str) -> str:
    """For example "nsh-16 tau_c=0.2 (fungi-sari)"."""
    parts = [f"{key.rpartition('.')[2]}={value}" for key, value in list(changed.items())[:NAMED_DIFFERENCES]]
    more = [f"+{len(changed) - len(parts)} more"] if len(changed) > len(parts) else []
    return " ".join([pair.key, *parts, *more, *([f"({experiment})"] if experiment else [])])


def log_metrics(store: Store, run_id: str, metrics: "Sequence[Metric]") -> None:
    """Log any number of metrics; a server takes `BATCH` at a time."""
    for start in range(0, len(metrics), BATCH):
        store.client.log_batch(run_id, metrics=metrics[start : start + BATCH])
