"""The one loop for methods that learn by gradient, on cached views: resumable and deterministic.

It knows an `Objective`, not which method it belongs to; it reports through a callable and knows no tracker. The result
depends on objective, data, schedule, seed, device and number of threads, and on nothing else. Lightning, which runs
the steps (`nsh.training.steps`), is imported when there are steps to run: closed-form methods need not wait for it.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nsh.core.errors import TrainingError
from nsh.core.progress import Progress, no_progress
from nsh.methods.base import Objective, Report, Schedule, TrainingData
from nsh.training.checkpoint import fingerprint


@dataclass(frozen=True, kw_only=True)
class CachedViewLoop:
    """A `nsh.methods.base.Loop` over the cached views of a frozen backbone.

    Attributes:
        cache: folder for partial state; a finished run leaves nothing there.
        threads: of torch; results are equal only for equal threads.
        device: "cpu", "cuda" or "cuda:<n>" (see `nsh.training.device`).
        progress: shows the steps.
    """

    cache: Path
    threads: int
    device: str = "cpu"
    progress: Progress = no_progress

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
        """Minimise `objective` in place by Adam, going on from the last whole epoch of an interrupted run.

        `report` gets one record an epoch: "epoch" from 1, the means of the objective's terms over its steps, and
        "bit_balance" of the clean images' codes. A resumed run reports the epochs before the interruption again.

        Raises:
            TrainingError: fewer images than a batch, or fewer than two views.
            NonFiniteLoss: names epoch, step and images.
        """
        _check(data, schedule)
        settings = {"threads": self.threads, "device": self.device, "seed": seed, "schedule": asdict(schedule)}
        checkpoint = self.cache / fingerprint({**identity, "loop": settings}, data) / "last.ckpt"
        from nsh.training.steps import run_steps

        run_steps(
            objective,
            data,
            schedule=schedule,
            seed=seed,
            threads=self.threads,
            device=self.device,
            checkpoint=checkpoint,
            report=report,
            progress=self.progress,
        )
        objective.to("cpu")
        shutil.rmtree(checkpoint.parent, ignore_errors=True)


def _check(data: TrainingData, schedule: Schedule) -> None:
    images, views, _ = data.views.shape
    if images < schedule.batch:
        raise TrainingError(
            f"found {images} training images, a batch needs {schedule.batch}: "
            f"raise split.train to {schedule.batch} or more, or lower the method's batch"
        )
    if views < 2:
        raise TrainingError(f"found {views} view of every training image, 2 or more are needed: raise embed.views")
