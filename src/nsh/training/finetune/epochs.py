"""The epochs of a fine-tuning run: steps, validation, checkpoints, the end. Knows no method and no data set."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from nsh.objectives.base import Report, Schedule
from nsh.system.progress import Progress
from nsh.training.finetune.gather import agree, gather
from nsh.training.finetune.images import Inputs
from nsh.training.finetune.order import Rows, cut_batches, draw_batches, hold_out, pair, shard, space_evenly
from nsh.training.finetune.state import FineTuningState
from nsh.training.finetune.stop import Stop
from nsh.training.state import bit_balance


@dataclass(kw_only=True)
class Epochs:
    """The remaining epochs of a run."""

    state: FineTuningState
    images: Inputs
    schedule: Schedule
    seed: int
    stop: Stop
    saved: float = field(default_factory=time.monotonic)

    def go_on(self, report: Report, *, progress: Progress) -> None:
        """Train until the last epoch, or until `patience` is exceeded."""
        position, batch = self.state.position, self.schedule.batch
        for record in position.records:
            report(record)
        training, held_out = hold_out(len(self.images.ids), count=self.state.recipe.held_out, seed=self.seed)
        left = (self.schedule.epochs - position.epoch) * (len(training) // batch) - position.step
        ticks = iter(progress(range(left), desc="train", total=left))
        while not self._is_over():
            self._train(self._draw_batches(training)[position.step :], ticks)
            better = position.finish_epoch(self._describe(held_out))
            if better:
                self.state.save_best()
            self._save()
            report(position.records[-1])
        next(ticks, None)  # past the last step, so that the progress bar ends its line
        self.state.finish()

    def _is_over(self) -> bool:
        position, patience = self.state.position, self.state.recipe.patience
        waited = position.epoch - 1 - position.best_epoch
        impatient = patience is not None and self.state.recipe.held_out > 0 and waited >= patience
        return position.epoch >= self.schedule.epochs or (impatient and position.epoch > 0)

    def _draw_batches(self, training: Rows) -> list[Rows]:
        """This epoch's batches of pairs of the images in `training`."""
        partners, epoch = self.state.module.objective.partners, self.state.position.epoch
        return draw_batches(training, partners=partners, batch=self.schedule.batch, seed=self.seed, epoch=epoch)

    def _train(self, batches: list[Rows], ticks: Iterator[int]) -> None:
        position = self.state.position
        self.state.module.train()
        for views in self.images.read_pairs(self._own(batches), seed=self.seed, epoch=position.epoch):
            position.add(self.state.step(views, seed=self.seed))
            next(ticks, None)
            self._pause()
        self.state.settle()

    def _describe(self, held_out: Rows) -> dict[str, float]:
        """The record of the finished epoch."""
        position = self.state.position
        record = {"epoch": position.epoch + 1, **position.means()}
        with self._looking():
            if len(held_out):
                record["held_out_loss"] = self._validate(held_out)
            record["bit_balance"] = self._balance()
        self._pause()
        return record

    def _validate(self, held_out: Rows) -> float:
        """Mean loss of the held-out images, with the same batches, pairs and views every time."""
        losses, generator = [], np.random.default_rng(self.seed)
        pairs = pair(held_out, partners=self.state.module.objective.partners, generator=generator)
        batches = cut_batches(pairs, batch=self.schedule.batch)
        for views in self.images.read_pairs(self._own(batches), seed=self.seed, epoch=0):
            losses.append(self.state.held_out_loss(views))
            if agree(self.stop.asked, device=self.state.fabric.device):
                break
        loss: float = self.state.fabric.broadcast(float(np.mean(losses)))  # so that all ranks decide alike
        return loss

    def _balance(self) -> float:
        """The bit balance on clean images, evenly spaced among all."""
        rows, ranks = space_evenly(len(self.images.ids)), self.state.fabric.world_size
        rows = rows[: len(rows) // ranks * ranks]
        batches = [rows[start : start + self.schedule.batch] for start in range(0, len(rows), self.schedule.batch)]
        embed, device = self.state.module.embed, self.state.fabric.device
        parts = [gather(embed(pixels.to(device))) for pixels in self.images.read_clean(self._own(batches))]
        return bit_balance(self.state.module.objective.head, torch.cat(parts))

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """Evaluate the averaged weights; afterwards the objective, which may count or draw, has its former state."""
        module = self.state.module
        before = {name: value.clone() for name, value in module.objective.state_dict().items()}
        module.eval()
        try:
            with torch.no_grad(), self.state.average.taken():
                yield
        finally:
            module.objective.load_state_dict(before)

    def _own(self, batches: list[Rows]) -> list[Rows]:
        fabric = self.state.fabric
        return [shard(rows, rank=fabric.global_rank, ranks=fabric.world_size) for rows in batches]

    def _pause(self) -> None:
        """Between two steps: write a checkpoint if it is due, and end if any rank has received SIGTERM."""
        if agree(self.stop.asked, device=self.state.fabric.device):
            self._save()
            self.stop.hand_on()
        if time.monotonic() - self.saved >= 60 * self.state.recipe.checkpoint_minutes:
            self._save()

    def _save(self) -> None:
        self.state.save()
        self.saved = time.monotonic()
