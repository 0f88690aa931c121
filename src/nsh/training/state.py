"""The state of a training run, its steps and its checkpoint. Knows an objective, no method and no data."""

import math
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from nsh.core.codes import binarize, pack
from nsh.core.metrics.balance import bit_figures
from nsh.errors import NonFiniteLoss
from nsh.objectives.base import HashHead, Objective
from nsh.system.files import atomic_path
from nsh.training.checkpoint import read_checkpoint
from nsh.training.pairs import Pair


class TrainingState:
    """An objective on its device, its optimiser, and the records of the finished epochs."""

    def __init__(self, objective: Objective, *, learning_rate: float, device: str) -> None:
        self.objective = objective.to(device)
        self.optimiser = torch.optim.Adam(objective.parameters(), lr=learning_rate, fused=True)
        self.device = device
        self.records: list[dict[str, float]] = []

    def save(self, checkpoint: Path) -> None:
        """Write all state to `checkpoint`, atomically."""
        state = {"objective": self.objective.state_dict(), "optimiser": self.optimiser.state_dict()}
        with atomic_path(checkpoint) as partial:
            torch.save({**state, "records": self.records}, partial)

    def resume(self, checkpoint: Path) -> None:
        """Load the state from `checkpoint`, if it exists.

        Raises:
            TrainingError: it is damaged.
        """
        if checkpoint.exists():
            state = read_checkpoint(checkpoint, device=self.device)
            self.objective.load_state_dict(state["objective"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.records = state["records"]

    def epoch(self, pairs: Iterable[Pair]) -> dict[str, float]:
        """Do a step for each of `pairs`, one or more; return the means of the objective's terms.

        Raises:
            NonFiniteLoss: names epoch, step and images.
        """
        sums: dict[str, Tensor] = {}
        for step, pair in enumerate(pairs, start=1):
            for name, value in self._step(pair, step).items():
                sums[name] = sums.get(name, 0) + value.detach()
        return {name: float(total) / step for name, total in sums.items()}

    def _step(self, pair: Pair, step: int) -> dict[str, Tensor]:
        rows, first, second = (part.to(self.device) for part in pair)
        self.optimiser.zero_grad()
        terms = self.objective.cached_loss(rows, first, second)
        if not math.isfinite(loss := terms["loss"].item()):
            raise NonFiniteLoss(
                f"the loss became {loss} in epoch {len(self.records) + 1}, step {step}, on the "
                f"training images in rows {rows.tolist()}: lower the learning rate, or look at these images"
            )
        terms["loss"].backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return terms


@torch.no_grad()
def bit_balance(head: HashHead, features: Tensor) -> float:
    """The bit balance of a head in training on `features`, float32 [n, dim] (see `nsh.core.metrics`)."""
    head.eval()  # so that a batch normalisation does not learn from it
    codes = pack(binarize(head(features).cpu().numpy()))
    head.train()
    return bit_figures(codes, bits=head.bits)["bit_balance"]
