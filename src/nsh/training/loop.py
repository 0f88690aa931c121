"""The training loop on cached views, for methods that learn by gradient: resumable and deterministic.

It minimises an `Objective` of any method and reports through a callable. The result depends only on objective, data,
schedule, seed, device and number of threads.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nsh.errors import TrainingError
from nsh.objectives.base import Objective, Report, Schedule, TrainingData
from nsh.system.progress import Progress, no_progress
from nsh.training.checkpoint import collect_provenance, fingerprint
from nsh.training.pairs import read_pairs
from nsh.training.reproducible import reproducible
from nsh.training.state import TrainingState, bit_balance

WATCHED = 2048
"""Largest number of clean images whose bit balance is computed after an epoch."""


@dataclass(frozen=True, kw_only=True)
class CachedViewLoop:
    """A `nsh.objectives.base.Loop` over the cached views of a frozen backbone.

    Attributes:
        cache: folder for checkpoints, which stay until `clear`.
        threads: torch's threads; results are equal only for equal threads.
        device: "cpu", "cuda" or "cuda:<n>" (see `nsh.training.device`).
        progress: shows the steps.
    """

    cache: Path
    threads: int
    device: str = "cpu"
    progress: Progress = no_progress
    _begun: list[Path] = field(default_factory=list, init=False, repr=False)

    def clear(self) -> None:
        """Delete the checkpoints of this loop's runs: call it when their results are on disk."""
        for folder in self._begun:
            shutil.rmtree(folder, ignore_errors=True)

    def __call__(
        self,
        objective: Objective,
        data: TrainingData,
        *,
        schedule: Schedule,
        seed: int,
        identity: Mapping[str, Any],
        report: Report,
    ) -> None:
        """Minimise `objective` in place by Adam, from the last complete epoch of a run that was not cleared.

        `report` gets one record an epoch: "epoch" from 1, the means of the objective's terms over its steps, and
        "bit_balance" of the codes of at most `WATCHED` clean images. A resumed run reports its former epochs again.

        Raises:
            TrainingError: fewer images than a batch, or fewer than two views.
            NonFiniteLoss: names epoch, step and images.
        """
        _check(data, schedule)
        settings = {"threads": self.threads, "device": self.device, "seed": seed, "schedule": asdict(schedule)}
        provenance = collect_provenance({**identity, "loop": settings}, data, loop=__name__)
        checkpoint = self.cache / fingerprint(provenance) / "last.ckpt"
        self._begun.append(checkpoint.parent)
        with reproducible(self.threads):
            state = TrainingState(objective, learning_rate=schedule.learning_rate, device=self.device)
            state.resume(checkpoint)
            self._go_on(state, data, schedule=schedule, seed=seed, checkpoint=checkpoint, report=report)
        objective.to("cpu")

    def _go_on(
        self,
        state: TrainingState,
        data: TrainingData,
        *,
        schedule: Schedule,
        seed: int,
        checkpoint: Path,
        report: Report,
    ) -> None:
        """Run the remaining epochs."""
        for record in state.records:
            report(record)
        left, steps = range(len(state.records), schedule.epochs), len(data.views) // schedule.batch
        pairs = read_pairs(data.views, batch=schedule.batch, seed=seed, epochs=left)
        shown = iter(self.progress(pairs, desc="train", total=len(left) * steps))
        watched = _watch(data).to(self.device)
        for epoch in left:
            means = state.epoch(islice(shown, steps))
            balance = bit_balance(state.objective.head, watched)
            state.records.append({"epoch": epoch + 1, **means, "bit_balance": balance})
            state.save(checkpoint)
            report(state.records[-1])
        next(shown, None)  # past the last step, so that the progress bar ends its line


def _check(data: TrainingData, schedule: Schedule) -> None:
    images, views, _ = data.views.shape
    if images < schedule.batch:
        raise TrainingError(
            f"found {images} training images, a batch needs {schedule.batch}: "
            f"raise split.train to {schedule.batch} or more, or lower the method's batch"
        )
    if views < 2:
        raise TrainingError(f"found {views} view of every training image, 2 or more are needed: raise embed.views")


def _watch(data: TrainingData) -> Tensor:
    """The features of at most `WATCHED` images, evenly spaced in the training data."""
    return torch.from_numpy(data.features[:: -(-len(data.features) // WATCHED)])
