"""The fine-tuning loop, for methods that learn by gradient: trains backbone and objective together on images.

If only an upper part of the backbone learns, it is trained on the inner activations of images (`.activations`).

It is the second `nsh.objectives.base.Loop`, besides `nsh.training.loop`, and knows no method, data set or tracker.
The result depends on network, objective, images, schedule, recipe, seed, kind of device, threads and number of ranks.

Validation needs no label: it is the objective on images that are never trained on, with the same two views after every
epoch. Every method has an objective, and where this loss rises again the network overfits. It does not measure
retrieval, so `keep: last` is possible too.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from nsh.errors import ConfigError, TrainingError
from nsh.objectives.base import Objective, Report, Schedule, TrainingData
from nsh.system.progress import Progress, no_progress
from nsh.training.checkpoint import Provenance, collect_provenance, fingerprint
from nsh.training.finetune.activations import Activations, LowerPart
from nsh.training.finetune.beginning import begin
from nsh.training.finetune.epochs import Epochs
from nsh.training.finetune.fabric import naming_lost_ranks, open_fabric
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.images import Inputs, TrainingImages
from nsh.training.finetune.module import FineTuning
from nsh.training.finetune.ranks import check_ranks, count_ranks
from nsh.training.finetune.recipe import Recipe
from nsh.training.finetune.state import FineTuningState
from nsh.training.finetune.stop import Stop
from nsh.training.reproducible import reproducible


@dataclass(frozen=True, kw_only=True)
class FineTuningLoop:
    """A `nsh.objectives.base.Loop` that trains the network in place.

    Attributes:
        network: images uint8 [n, S, S, 3] to embeddings float32 [n, d]; with `lower`, its inner activations float32
            [n, C h w] to embeddings. It made the data's features.
        images: all training images, which include the data's.
        recipe: how the network is trained.
        cache: folder for checkpoints, the last and best weights of finished runs, and, below images/, decoded images,
            or, below activations/, inner activations.
        threads: torch's threads; results are equal only for equal threads.
        lower: the frozen part below `network`; None: all layers learn.
        device: "cpu", "cuda" or "cuda:<n>" (see `nsh.training.device`).
        progress: shows the steps.
        say: gets lines for the user.
    """

    network: nn.Module
    images: ImageFiles
    recipe: Recipe
    cache: Path
    threads: int
    lower: LowerPart | None = None
    device: str = "cpu"
    progress: Progress = no_progress
    say: Callable[[str], None] = print

    def clear(self) -> None:
        """Keep all files, unlike the loop on cached views: the weights of a finished run took hours."""

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
        """Minimise `objective` over network and objective by Adam, from the last checkpoint of this run.

        `report` gets one record an epoch: "epoch" from 1, the means of the objective's terms over its steps,
        "held_out_loss" if images are held out, and "bit_balance" of the codes of some clean images. A resumed run
        reports its former epochs again. On SIGTERM the step is finished, a checkpoint is written, and the signal is
        raised again.

        Raises:
            TrainingError: too few images, data without rows that are not all images, or a lost rank.
            ConfigError: the ranks cannot share a batch or the devices, or inner activations have no room.
            DataError: an image cannot be read.
            NonFiniteLoss: names epoch, step and images.
        """
        files = self._select(data)
        self._check(len(files.ids), schedule=schedule)
        provenance = self._collect_provenance(data, schedule=schedule, seed=seed, identity=identity)
        folder = self.cache / fingerprint(provenance)[:16]
        with reproducible(self.threads), torch.random.fork_rng(devices=[]), naming_lost_ranks():
            fabric = open_fabric(self.device)
            images = self._prepare(files, fabric)
            with Stop() as stop:  # not before: SIGTERM may end this at once, which continues in the next run
                module = FineTuning(self.network, objective, recipe=self.recipe, learning_rate=schedule.learning_rate)
                state = FineTuningState(module, fabric, folder=folder, provenance=provenance)
                if fabric.is_global_zero and not state.is_begun():
                    for line in begin(folder, provenance):
                        self.say(line)
                state.resume()
                epochs = Epochs(state=state, images=images, schedule=schedule, seed=seed, stop=stop)
                epochs.go_on(report, progress=self.progress)
                if self.recipe.keep == "best" and self.recipe.held_out:
                    state.take_best()
                else:
                    state.average.take()
        module.to("cpu")

    def _prepare(self, files: ImageFiles, fabric: Fabric) -> Inputs:
        """Decode the images, or compute their inner activations, unless an earlier run has."""
        if self.lower is None:
            return TrainingImages.prepare(files, cache=self.cache / "images", fabric=fabric, progress=self.progress)
        return Activations.prepare(
            files,
            lower=self.lower,
            cache=self.cache / "activations",
            device=fabric.device,
            progress=self.progress,
            say=self.say,
        )

    def _collect_provenance(
        self, data: TrainingData, *, schedule: Schedule, seed: int, identity: Mapping[str, Any]
    ) -> Provenance:
        settings = {"seed": seed, "threads": self.threads, "ranks": count_ranks()}
        where = {"device": self.device.partition(":")[0], "image_size": self.images.size}
        recipe: dict[str, Any] = {"resample": self.images.resample, "finetune": self.recipe.identity()}
        if self.lower is not None:
            recipe["lower"] = self.lower.identity()
        return collect_provenance({**asdict(schedule), **identity, **settings, **where, **recipe}, data, loop=__name__)

    def _select(self, data: TrainingData) -> ImageFiles:
        """The data's images: those that the method has chosen, or all."""
        if data.rows is not None:
            return self.images.take(data.rows)
        if len(data.features) != len(self.images.ids):
            raise TrainingError(
                f"found {len(self.images.ids)} training images and features of {len(data.features)}, which do not say "
                "whose they are: run the embed stage again, or let the method select by TrainingData.take"
            )
        return self.images

    def _check(self, found: int, *, schedule: Schedule) -> None:
        batch, held_out = schedule.batch, self.recipe.held_out
        if found - held_out < batch:
            raise TrainingError(
                f"found {found} training images, {held_out} of them held out, a batch needs {batch}: raise "
                f"split.train to {batch + held_out} or more, or lower train.finetune.held_out or the method's batch"
            )
        if 0 < held_out < batch:
            raise TrainingError(
                f"found {held_out} images held out, a batch needs {batch}: raise train.finetune.held_out to {batch} or "
                "more, or set it to 0 to validate nothing"
            )
        check_ranks(count_ranks(), batch=batch, device=self.device)
        if self.lower is not None and count_ranks() > 1:
            raise ConfigError(
                f"train.finetune.from: found {self.lower.block} and {count_ranks()} ranks, allowed is 1: start one, "
                "or set from to null"
            )
