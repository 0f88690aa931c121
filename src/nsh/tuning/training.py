"""Trains and judges one trial: a head on the images that are not held out. Knows no optimiser of parameters."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsh.config import Params, change
from nsh.methods import HashHead, Loop, Objective, TrainingData, create
from nsh.project.paths import Pair
from nsh.training.fit import fit
from nsh.training.loop import CachedViewLoop
from nsh.training.reproducible import reproducible
from nsh.tuning.held_out import HeldOut
from nsh.tuning.study import JudgeEpoch, Scores


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """Trains a method with any values of its parameters.

    Attributes:
        params: what is not searched.
        pair: the method and the length of its codes.
        held_out: what is learned from, and what judges.
        cache: a folder for the state of a trial while it trains.
        device: "cpu", "cuda" or "cuda:<n>".
    """

    params: Params
    pair: Pair
    held_out: HeldOut
    cache: Path
    device: str

    def with_values(self, values: Mapping[str, Any]) -> Params:
        """The parameters of the project with other values of the method's.

        Raises:
            ConfigError: the values break a rule.
        """
        return change(self.params, {f"methods.{self.pair.method}.{name}": value for name, value in values.items()})

    def measure(self, values: Mapping[str, Any], judge: JudgeEpoch) -> Scores:
        """Train with `values`, and score the head; methods that learn by gradient are judged after every epoch too.

        Raises:
            ConfigError: the values break a rule.
            TrainingError: the method cannot be trained with them.
        """
        method = create(self.pair.method, self.with_values(values).methods.model_dump()[self.pair.method])
        held_out, train = self.held_out, self.params.train
        self.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.cache) as folder, reproducible(train.threads):
            loop = _JudgedLoop(
                CachedViewLoop(cache=Path(folder), threads=train.threads, device=self.device),
                lambda head, epoch: judge(epoch, held_out.score(head, held_out.choose)),
            )
            settings = {"bits": self.pair.bits, "seed": train.seed, "threads": train.threads}
            head = fit(method, held_out.data, **settings, loop=loop, report=lambda record: None).head
            return Scores(held_out.score(head, held_out.choose), held_out.score(head, held_out.check))


@dataclass(frozen=True)
class _JudgedLoop:
    """A loop that shows its head after every epoch."""

    loop: Loop
    judge: Callable[[HashHead, int], None]

    def __call__(self, objective: Objective, data: TrainingData, *, report: Any, **settings: Any) -> None:
        def report_and_judge(record: dict[str, float]) -> None:
            report(record)
            self.judge(objective.head, int(record["epoch"]))

        self.loop(objective, data, report=report_and_judge, **settings)
