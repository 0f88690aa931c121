"""The state of a fine-tuning run and its checkpoints. Knows no method and no images.

The run's folder holds last.ckpt (the whole state after a step), best.ckpt (the averaged weights after the epoch with
the smallest held-out loss), both with everything the run depends on (see `nsh.training.checkpoint`), and, until the run
is finished, run.json, which holds this alone (`nsh.training.finetune.beginning`). Rank 0 writes, every rank reads.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from nsh.errors import NonFiniteLoss, TrainingError
from nsh.system.files import atomic_path
from nsh.training.checkpoint import Provenance, list_differences, read_checkpoint
from nsh.training.finetune.average import Average
from nsh.training.finetune.beginning import MARK
from nsh.training.finetune.images import Pair
from nsh.training.finetune.module import FineTuning

Terms = dict[str, Tensor]


@dataclass
class Position:
    """The position of a run: `step` steps into epoch number `epoch`, from 0."""

    epoch: int = 0
    step: int = 0
    sums: Terms = field(default_factory=dict)  # of the objective's terms over the epoch's steps
    records: list[dict[str, float]] = field(default_factory=list)
    best_loss: float = math.inf
    best_epoch: int = -1

    def add(self, terms: Terms) -> None:
        """Count a step."""
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, 0) + value.detach()
        self.step += 1

    def means(self) -> dict[str, float]:
        """The means of the terms over the steps of this epoch."""
        return {name: float(total) / self.step for name, total in self.sums.items()}

    def finish_epoch(self, record: dict[str, float]) -> bool:
        """Go to the next epoch; return whether the finished one is the best so far."""
        self.records.append(record)
        better = record.get("held_out_loss", math.inf) < self.best_loss
        if better:
            self.best_loss, self.best_epoch = record["held_out_loss"], self.epoch
        self.epoch, self.step, self.sums = self.epoch + 1, 0, {}
        return better


class FiniteCheck:
    """A number that must be finite, copied from the device without waiting, so that the device stays busy."""

    def __init__(self, number: Tensor, say: Callable[[float], str]) -> None:
        self.say = say
        self.number = number.detach()
        self.event: torch.cuda.Event | None = None
        if number.device.type == "cuda":
            self.number = torch.empty_like(self.number, device="cpu", pin_memory=True)
            self.number.copy_(number.detach(), non_blocking=True)
            self.event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.event.record()

    def settle(self) -> None:
        """Wait for the number and check it.

        Raises:
            NonFiniteLoss: it is not finite.
        """
        if self.event is not None:
            self.event.synchronize()
        if not math.isfinite(number := float(self.number)):
            raise NonFiniteLoss(self.say(number))


class FineTuningState:
    """Module, optimiser and averaged weights on their device, and the position in the run."""

    def __init__(self, module: FineTuning, fabric: Fabric, *, folder: Path, provenance: Provenance) -> None:
        self.module, self.fabric, self.recipe = module, fabric, module.recipe
        if fabric.world_size > 1 and fabric.device.type == "cuda" and self.recipe.batch_norm == "trained":
            nn.SyncBatchNorm.convert_sync_batchnorm(module.network)  # type: ignore[no-untyped-call]
        self.step_module, self.optimiser = fabric.setup(module, module.make_optimiser())
        self.average = Average(module, decay=self.recipe.average)
        self.folder, self.provenance = folder, provenance
        self.position = Position()
        self._pending: list[FiniteCheck] = []

    def held_out_loss(self, pair: Pair) -> float:
        """The loss of a batch of held-out images.

        Raises:
            NonFiniteLoss: names epoch and images.
        """
        rows, first, second = (part.to(self.fabric.device) for part in pair)
        loss: float = self.step_module((rows, first, second))["loss"].item()
        if not math.isfinite(loss):
            raise NonFiniteLoss(
                f"the loss became {loss} after epoch {self.position.epoch + 1} on the held-out images in rows "
                f"{rows.tolist()}: lower the learning rates, or look at these images"
            )
        return loss

    def step(self, pair: Pair, *, seed: int) -> Terms:
        """Do one step; torch's random numbers in it depend on (seed, epoch, step) alone.

        Loss and gradient are checked one step later, and before anything is written: see `settle`.

        Raises:
            NonFiniteLoss: names epoch, step and images.
            TrainingError: the loss does not reach the network.
        """
        epoch, step = self.position.epoch, self.position.step
        torch.manual_seed(int(np.random.SeedSequence([seed, epoch, step]).generate_state(1)[0]))
        rows, first, second = (part.to(self.fabric.device) for part in pair)
        self.optimiser.zero_grad()
        terms: Terms = self.step_module((rows, first, second))
        checks = [
            FiniteCheck(
                terms["loss"],
                lambda loss: (
                    f"the loss became {loss} in epoch {epoch + 1}, step {step + 1}, on the training images in rows "
                    f"{rows.tolist()}: lower the learning rates, or look at these images"
                ),
            )
        ]
        self.fabric.backward(terms["loss"])
        if all(parameter.grad is None for parameter in self.module.network.parameters()):
            raise TrainingError(
                "the loss does not depend on the embeddings it was given, so the backbone would stay as it is: let the "
                "objective's `tune` use them, or set train.mode: frozen"
            )
        checks += self._clip()
        self.optimiser.step()
        self.average.add()
        self.settle()
        self._pending = checks
        return terms

    def settle(self) -> None:
        """Check the loss and the gradient of the last step.

        Raises:
            NonFiniteLoss: names epoch, step and images.
        """
        checks, self._pending = self._pending, []
        for check in checks:
            check.settle()

    def _clip(self) -> list[FiniteCheck]:
        limit, epoch, step = self.recipe.clip, self.position.epoch, self.position.step
        if limit is None:
            return []
        length = self.fabric.clip_gradients(self.step_module, self.optimiser, max_norm=limit, error_if_nonfinite=False)
        if length is None:
            return []
        where = f"in epoch {epoch + 1}, step {step + 1}, of a finite loss: lower the learning rates"
        return [FiniteCheck(length, lambda length: f"the gradient became {length} {where}")]

    def save(self) -> None:
        """Write the whole state to last.ckpt, atomically.

        Raises:
            NonFiniteLoss: loss or gradient of the last step is not finite.
        """
        self.settle()
        position = {name: value for name, value in vars(self.position).items() if name != "sums"}
        sums = {name: value.cpu() for name, value in self.position.sums.items()}
        self._write(
            "last.ckpt",
            {"module": self.module.state_dict(), "optimiser": self.optimiser.state_dict()}
            | {"average": self.average.state_dict(), "position": {**position, "sums": sums}},
        )

    def save_best(self) -> None:
        """Write the averaged weights to best.ckpt, atomically."""
        with self.average.taken():
            self._write("best.ckpt", {"module": self.module.state_dict()})

    def is_begun(self) -> bool:
        """Whether there is a checkpoint."""
        return (self.folder / "last.ckpt").exists()

    def resume(self) -> None:
        """Load the state from last.ckpt, if it exists.

        Raises:
            TrainingError: it is damaged, or of another run; names the differences.
        """
        self.fabric.barrier()  # rank 0 may still be writing it
        if not self.is_begun():
            return
        state = self._read("last.ckpt")
        self.module.load_state_dict(state["module"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.average.load_state_dict(state["average"])
        self.position = Position(**state["position"])
        self.position.sums = {name: value.to(self.fabric.device) for name, value in self.position.sums.items()}

    def take_best(self) -> None:
        """Load the averaged weights of the best epoch from best.ckpt."""
        self.fabric.barrier()  # rank 0 may still be writing it
        self.module.load_state_dict(self._read("best.ckpt")["module"])

    def finish(self) -> None:
        """Mark the run as finished."""
        if self.fabric.is_global_zero:
            (self.folder / MARK).unlink(missing_ok=True)

    def _write(self, name: str, state: dict[str, Any]) -> None:
        if self.fabric.is_global_zero:
            with atomic_path(self.folder / name) as partial:
                torch.save({**state, "provenance": self.provenance}, partial)

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        state = read_checkpoint(path)
        differences = list_differences(state["provenance"], self.provenance)
        if differences:
            raise TrainingError(f"{path} is of another run ({'; '.join(differences)}): delete {self.folder}")
        return state
