"""A study: the trials of a search in a SQLite file, and the values that Optuna tries next. Trains nothing.

A trial is complete, stopped early, refused (the method does not take its values) or, if its process ended first, void.
A study that was interrupted goes on as if it had not been: what is tried in trial n depends on the n trials before it
and on the seed alone.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from filelock import FileLock, Timeout
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from nsh.errors import ConfigError, NshError, TrainingError
from nsh.tuning.space import Range, Space

LEARNED_FIRST = 5  # complete trials before one is stopped early, and trials that are drawn at random
FIRST_JUDGED = 2  # epoch after which a trial may be stopped: the first one says little
CHECKED, REFUSED = "checked", "refused"  # attributes of a trial


class StudyUnusable(NshError):
    """The file of the studies cannot be read or written, or another process searches."""


class Scores(NamedTuple):
    """Of the held-out images that choose between trials, and of those that check the winner."""

    chosen: float
    checked: float


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial that has ended.

    Attributes:
        number: from 0, which has the values of params.yaml.
        values: of the parameters that are searched.
        scores: of a complete trial, else None.
        curve: the score after each epoch that was judged.
        refused: why the method did not take the values; "" if it did.
    """

    number: int
    values: Mapping[str, Any]
    scores: Scores | None
    curve: Mapping[int, float]
    refused: str

    @property
    def state(self) -> str:
        """One of "complete", "stopped" and "refused"."""
        return "complete" if self.scores else "refused" if self.refused else "stopped"


JudgeEpoch = Callable[[int, float], None]
"""Takes an epoch and the score after it; ends a trial that is worse than the median of those before it."""
Measure = Callable[[Mapping[str, Any], JudgeEpoch], Scores]
"""Trains with the values of the searched parameters."""


@dataclass(frozen=True)
class Study:
    """The trials of one name in an open file."""

    name: str
    space: Space
    seed: int
    _stored: optuna.Study

    @property
    def trials(self) -> list[Trial]:
        """Those that have ended, in their order; void ones are left out."""
        found = self._stored.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        return [self._read(trial, number) for number, trial in enumerate(found)]

    def run_next(self, measure: Measure) -> Trial:
        """Run one more trial, and keep what came of it.

        Raises:
            NshError: the values of params.yaml cannot be trained with.
        """
        number = len(self.trials)
        asked = self._ask(number)
        try:
            scores = measure(self._tidy(asked.params), lambda epoch, score: _judge(asked, epoch, score))
        except optuna.TrialPruned:
            self._tell(asked, TrialState.PRUNED)
        except (ConfigError, TrainingError) as error:
            if number == 0:
                self._tell(asked, TrialState.FAIL)
                raise
            self._tell(asked, TrialState.PRUNED, refused=str(error))
        except BaseException:
            self._tell(asked, TrialState.FAIL)
            raise
        else:
            self._tell(asked, TrialState.COMPLETE, value=scores.chosen, checked=scores.checked)
        return self.trials[number]

    def _ask(self, number: int) -> optuna.Trial:
        waiting = self._stored.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        if number == 0 and not waiting:
            self._stored.enqueue_trial({name: span.default for name, span in self.space.items()})
        self._stored.sampler = optuna.samplers.TPESampler(n_startup_trials=LEARNED_FIRST, seed=self.seed + number)
        return self._stored.ask({name: _distribution(span) for name, span in self.space.items()})

    def _tell(self, asked: optuna.Trial, state: TrialState, *, value: float | None = None, **notes: Any) -> None:
        for name, note in notes.items():
            asked.set_user_attr(name, note)
        self._stored.tell(asked, value, state)

    def _read(self, trial: FrozenTrial, number: int) -> Trial:
        checked = trial.user_attrs.get(CHECKED)
        return Trial(
            number=number,
            values=self._tidy(trial.params),
            scores=None if trial.value is None or checked is None else Scores(trial.value, checked),
            curve=trial.intermediate_values,
            refused=trial.user_attrs.get(REFUSED, ""),
        )

    def _tidy(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: span.tidy(values[name]) for name, span in self.space.items()}


@contextmanager
def open_study(path: Path, *, name: str, space: Space, seed: int) -> Iterator[Study]:
    """Open a study for this process alone, or begin it.

    Args:
        path: the SQLite file, made if it is missing.
        name: of the study; another name is another study.
        space: what is searched.
        seed: of the values that are tried.

    Raises:
        StudyUnusable: the file cannot be read or written, or another process searches in this study.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(path.with_name(f"{name}.lock"), blocking=False))
        except Timeout as error:
            raise StudyUnusable(f"another process searches in the study {name}: wait for it, or stop it") from error
        stack.enter_context(_plain_errors(path))
        yield Study(name, space, seed, _open(path, name))


def _open(path: Path, name: str) -> optuna.Study:
    stored = optuna.create_study(
        storage=f"sqlite:///{path}",
        study_name=name,
        direction="maximize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=LEARNED_FIRST, n_warmup_steps=FIRST_JUDGED),
    )
    for trial in stored.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):  # of a process that was killed
        stored.tell(trial.number, state=TrialState.FAIL)
    return stored


def _judge(asked: optuna.Trial, epoch: int, score: float) -> None:
    asked.report(score, epoch)
    if asked.should_prune():
        raise optuna.TrialPruned


def _distribution(span: Range) -> BaseDistribution:
    if span.is_whole:
        return IntDistribution(int(span.low), int(span.high), log=True)
    return FloatDistribution(span.low, span.high, log=True)


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (optuna.exceptions.StorageInternalError, SQLAlchemyError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise StudyUnusable(f"{path} cannot be used: {reason}; mend it, or delete it to begin anew") from error
