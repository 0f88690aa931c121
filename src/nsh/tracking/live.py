"""The MLflow run of a training: curves appear epoch by epoch.

A store that does not answer never stops the training. Records are kept and sent when it answers again, and `nsh track
sync` adds what is still missing at the end. Knows nothing of the training.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsh.config import Params
from nsh.errors import NonFiniteLoss
from nsh.project.paths import Pair, Project
from nsh.system.files import sha256_file
from nsh.tracking.lineage import revision_tags
from nsh.tracking.results import numbers
from nsh.tracking.runs import CURVE_PREFIX, create_run, end_dead_runs, experiment_of, log_metrics
from nsh.tracking.store import Store, UnreachableStoreError, open_store, plain_errors

if TYPE_CHECKING:
    from mlflow.entities import Metric

Report = Callable[[Mapping[str, Any]], None]
SEND_EVERY = 1.0  # seconds: records of short epochs share a request
RETRY_AFTER = 60.0  # seconds between two tries to reach a store that did not answer
DURATION = "train_seconds"  # a metric: of the training alone; of a resumed training since it was resumed
HINT = "training goes on, `nsh track sync` adds the run afterwards"


@contextmanager
def training_run(folder: Path, params: Params, *, pair: Pair) -> Iterator[Report]:
    """Open a run for the block and yield a callable that takes one record an epoch.

    A record holds "epoch" (from 1) and numbers by name. The block writes the pair's head before it ends; later stages
    find the run by the head's digest. The run ends as FINISHED, as KILLED on Ctrl-C and SIGTERM (`SystemExit`), else as
    FAILED.

    Args:
        folder: the project's folder, with params.yaml.
        params: the parameters of the run.
        pair: the method and code length.

    Raises:
        TrackingError: `MLFLOW_TRACKING_URI` is no store, or the experiment was deleted; raised before the training.
        NonFiniteLoss: by the callable, if a number of a record is NaN or infinite.
    """
    run = _LiveRun(folder, params, pair=pair)
    start = time.monotonic()
    try:
        yield run.report
    except NonFiniteLoss:
        run.end("FAILED", tags={"nonfinite": "true"})
        raise
    except (KeyboardInterrupt, SystemExit):
        run.end("KILLED", tags={})
        raise
    except BaseException:
        run.end("FAILED", tags={})
        raise
    run.note(DURATION, time.monotonic() - start)
    run.end("FINISHED", tags={"head_sha256": sha256_file(Project(folder).of(pair).head)})


class _LiveRun:
    """A run whose store may stop and start answering."""

    def __init__(self, folder: Path, params: Params, *, pair: Pair) -> None:
        self._pair = pair
        self._pending: list[Metric] = []
        self._send_at = 0.0
        self._warned = False
        self._store: Store | None = None
        self._run_id = ""
        with self._surviving():
            store = open_store(folder, experiment=experiment_of(params))
            tags = {"source": "training"} | revision_tags(folder, pair)
            with plain_errors(store.uri):
                end_dead_runs(store)
                self._run_id = create_run(store, folder, params, pair, tags=tags)
                self._store = store

    def report(self, record: Mapping[str, Any]) -> None:
        values = numbers(record)
        bad = [name for name, value in values.items() if not math.isfinite(value)]
        if bad:
            raise NonFiniteLoss(
                f"{self._pair.key}: {', '.join(bad)} is not finite in epoch {record.get('epoch')}: "
                "lower the learning rate or raise the temperatures"
            )
        from mlflow.entities import Metric

        step, now = int(values.pop("epoch")), int(time.time() * 1000)
        self._pending += [Metric(CURVE_PREFIX + name, value, now, step) for name, value in values.items()]
        if time.monotonic() >= self._send_at:
            self._send()

    def note(self, name: str, value: float) -> None:
        """Record a figure of the whole training; `end` sends it."""
        from mlflow.entities import Metric

        self._pending.append(Metric(name, value, int(time.time() * 1000), 0))

    def end(self, status: str, *, tags: Mapping[str, str]) -> None:
        self._send()
        if self._store is None:
            return
        with self._surviving(), plain_errors(self._store.uri):
            for name, value in tags.items():
                self._store.client.set_tag(self._run_id, name, value)
            self._store.client.set_terminated(self._run_id, status)

    def _send(self) -> None:
        if self._store is None or not self._pending:
            return
        self._send_at = time.monotonic() + SEND_EVERY
        with self._surviving(), plain_errors(self._store.uri):
            log_metrics(self._store, self._run_id, self._pending)
            self._pending = []

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """Continue if the store does not answer, and print this once."""
        try:
            yield
        except UnreachableStoreError as error:
            self._send_at = time.monotonic() + RETRY_AFTER
            if not self._warned:
                print(f"warning: {error}; {HINT}", file=sys.stderr)
            self._warned = True
