"""The MLflow run of a study of parameters, and a child run of each of its trials.

A trial is recorded once: its run gets the tag with its number last. A store that does not answer stops no search; the
next search in the study records what is missing. Knows nothing of how trials are chosen.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nsh.config import Params
from nsh.project.paths import Pair
from nsh.tracking.processes import this_process
from nsh.tracking.runs import PROCESS, create_run, end_dead_runs, experiment_of, log_metrics
from nsh.tracking.store import Store, UnreachableStoreError, all_pages, open_store, plain_errors

STUDY, TRIAL, STATE = "tuning_study", "tuning_trial", "tuning_state"  # tags
PARENT = "mlflow.parentRunId"  # by which MLflow shows runs below another
STATUS = {"complete": "FINISHED", "stopped": "KILLED", "refused": "FAILED"}


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A trial, to be recorded.

    Attributes:
        number: in its study.
        params: with which it was trained.
        state: "complete", "stopped" or "refused".
        figures: final ones, by name.
        figure: the name of the figure that judges.
        curve: that figure by epoch.
    """

    number: int
    params: Params
    state: str
    figures: Mapping[str, float]
    figure: str
    curve: Mapping[int, float]


Record = Callable[[Tried], None]


@contextmanager
def tuning_run(folder: Path, params: Params, *, pair: Pair, study: str) -> Iterator[Record]:
    """Open the run of a study for the block, the former one if there is one, and yield what records a trial in it.

    The run ends as FINISHED, as KILLED on Ctrl-C and SIGTERM (`SystemExit`), else as FAILED.

    Args:
        folder: the project's folder, with params.yaml.
        params: the parameters of the project.
        pair: the method and code length.
        study: the name of the study.

    Raises:
        TrackingError: `MLFLOW_TRACKING_URI` is no store, or the experiment was deleted; raised before the search.
    """
    run = _StudyRun(folder, pair)
    run.try_to(lambda: run.begin(params, study))
    try:
        yield lambda tried: run.try_to(lambda: run.record(tried))
    except (KeyboardInterrupt, SystemExit):
        run.try_to(lambda: run.end("KILLED"))
        raise
    except BaseException:
        run.try_to(lambda: run.end("FAILED"))
        raise
    run.try_to(lambda: run.end("FINISHED"))


@dataclass
class _StudyRun:
    folder: Path
    pair: Pair
    is_lost: bool = False
    run_id: str = ""
    recorded: set[int] = field(default_factory=set)
    _store: Store | None = None

    def try_to(self, act: Callable[[], None]) -> None:
        """Give up after the first time that the store does not answer: each try may take a minute."""
        if self.is_lost:
            return
        try:
            with plain_errors(self._store.uri if self._store else ""):
                act()
        except UnreachableStoreError as error:
            self.is_lost = True
            print(f"warning: {error}; the search goes on, the next one records its trials", file=sys.stderr)

    @property
    def store(self) -> Store:
        assert self._store is not None  # `begin` comes first
        return self._store

    def begin(self, params: Params, study: str) -> None:
        self._store = store = open_store(self.folder, experiment=experiment_of(params))
        end_dead_runs(store)
        former = self._find(f"tags.{STUDY} = '{study}'")
        if former:
            self.run_id = str(former[0].info.run_id)
            store.client.set_tag(self.run_id, PROCESS, this_process())
        else:
            self.run_id = create_run(store, self.folder, params, self.pair, tags={STUDY: study, "source": "tuning"})
        store.client.update_run(self.run_id, status="RUNNING", name=f"tune {self.pair.key}")
        children = self._find(f"tags.`{PARENT}` = '{self.run_id}'")
        self.recorded = {int(child.data.tags[TRIAL]) for child in children if TRIAL in child.data.tags}

    def record(self, tried: Tried) -> None:
        from mlflow.entities import Metric

        if tried.number in self.recorded:
            return
        store, now = self.store, int(time.time() * 1000)
        tags = {PARENT: self.run_id, STATE: tried.state, "source": "tuning"}
        run_id = create_run(store, self.folder, tried.params, self.pair, tags=tags)
        points = [Metric(f"tuning/{tried.figure}", score, now, epoch) for epoch, score in tried.curve.items()]
        log_metrics(store, run_id, [*points, *(Metric(name, value, now, 0) for name, value in tried.figures.items())])
        store.client.update_run(run_id, name=f"trial {tried.number}")
        store.client.set_terminated(run_id, STATUS[tried.state])
        store.client.set_tag(run_id, TRIAL, str(tried.number))
        self.recorded.add(tried.number)

    def end(self, status: str) -> None:
        self.store.client.set_terminated(self.run_id, status)

    def _find(self, condition: str) -> list[Any]:
        return all_pages(
            self.store.client.search_runs,
            [self.store.experiment_id],
            condition,
            order_by=["attributes.start_time DESC"],
        )
