"""The exponential average of a network's and an objective's weights over steps. Knows no method, image or loop.

Late in a training at a constant rate the weights move about a point that is better than each of them (Polyak and
Juditsky, "Acceleration of stochastic approximation by averaging", 1992). The first steps' weights are forgotten faster:
after t steps the decay is at most (1 + t) / (10 + t), as in TensorFlow's `ExponentialMovingAverage`. A run of few steps
would keep the weights that it began with otherwise.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from nsh.training.finetune.module import FineTuning


class Average:
    """The average of all parameters, and of the statistics of batch normalisation in the network and the head."""

    def __init__(self, module: FineTuning, *, decay: float) -> None:
        """Begin with the weights as they are.

        Args:
            module: its weights change in place.
            decay: what remains of the average in a late step, in [0, 1); at 0 the average is the last step's weights,
                exactly.
        """
        parts = {"network": module.network, "objective.head": module.objective.head}
        buffers = [named for name, part in parts.items() for named in part.named_buffers(prefix=name)]
        statistics = [(name, buffer) for name, buffer in buffers if buffer.is_floating_point()]
        self._weights = {name: weight.detach() for name, weight in (*module.named_parameters(), *statistics)}
        self._average = {name: weight.clone() for name, weight in self._weights.items()}
        self._decay, self._steps = decay, 0

    def add(self) -> None:
        """Take in the weights after a step."""
        self._steps += 1
        decay = min(self._decay, (1 + self._steps) / (10 + self._steps))
        update = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        update(list(self._average.values()), list(self._weights.values()), 0)

    def take(self) -> None:
        """Let the module have the average."""
        _copy(self._average, self._weights)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Let the module have the average for a while."""
        weights = {name: weight.clone() for name, weight in self._weights.items()}
        self.take()
        try:
            yield
        finally:
            _copy(weights, self._weights)

    def state_dict(self) -> dict[str, Any]:
        """The average, by the names in the module, and the number of steps it has seen."""
        return {"weights": self._average, "steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a stored average."""
        _copy(state["weights"], self._average)
        self._steps = state["steps"]


def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in target.items():
            tensor.copy_(source[name])
