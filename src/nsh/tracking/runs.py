"""A pair's run in MLflow: its name, parameters and tags, and how it is found again. Knows nothing of files."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nsh.config import Params
from nsh.core.nested import flatten
from nsh.tracking.results import Pair
from nsh.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Metric, Param, Run

CURVE_PREFIX = "train/"  # of what is measured epoch by epoch; final figures have no prefix
BATCH = 1000  # metrics in one request, MLflow's limit


def experiment_of(params: Params) -> str:
    """The experiment a pair's run belongs to: one for each data set, since only its runs compare."""
    return params.dataset.name


def create_run(store: Store, pair: Pair, *, tags: Mapping[str, str]) -> str:
    """Open a run and return its id."""
    run = store.client.create_run(
        store.experiment_id, start_time=int(time.time() * 1000), tags=dict(tags), run_name=pair.key
    )
    return str(run.info.run_id)


def find_runs(store: Store, *, head_sha256: str) -> "list[Run]":
    """Runs of this very head, newest first."""
    found = store.client.search_runs(
        [store.experiment_id], f"tags.head_sha256 = '{head_sha256}'", order_by=["attributes.start_time DESC"]
    )
    return list(found)


def param_entities(params: Params, pair: Pair) -> "list[Param]":
    """The pair's parameters by their keys in params.yaml, without the matrix and without other methods'."""
    from mlflow.entities import Param

    values = params.model_dump(mode="json", exclude={"matrix"})
    values["methods"] = {pair.method: values["methods"][pair.method]}
    flat = {"method": pair.method, "bits": pair.bits} | flatten(values)
    return [Param(name, str(value)) for name, value in flat.items()]


def log_metrics(store: Store, run_id: str, metrics: "Sequence[Metric]") -> None:
    """Log any number of metrics; a server takes `BATCH` at a time."""
    for start in range(0, len(metrics), BATCH):
        store.client.log_batch(run_id, metrics=metrics[start : start + BATCH])
