"""What methods that learn by gradient share: their schedule, a standardised head, where they start, how they run.

It knows no loss. NSH's rivals were published for Caffe's or VGG's raw features and for SGD with various decays; here
all methods see standardised embeddings of a frozen backbone and are minimised by Adam, so that the losses are compared
and not the recipes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from nsh.objectives.base import HashHead, Loop, Objective, Report, Schedule, TrainingData
from nsh.objectives.heads.linear import StandardisedHead, draw_uniform


@dataclass(frozen=True, kw_only=True)
class GradientMethod:
    """A method that is an objective and its schedule."""

    epochs: int
    batch: int
    learning_rate: float

    name: ClassVar[str]

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Minimise the objective; only its hash head is kept.

        `report` gets the objective's terms and bit_balance once an epoch.

        Raises:
            TrainingError: the objective or the loop cannot train on this data.
        """
        data = self.select(data, seed=seed)
        objective = self.objective(data, bits=bits, seed=seed)
        schedule = Schedule(epochs=self.epochs, batch=self.batch, learning_rate=self.learning_rate)
        identity: Mapping[str, Any] = {"method": self.name, "bits": bits, **asdict(self)}
        loop(objective, data, schedule=schedule, seed=seed, identity=identity, report=report)
        return objective.head.eval()

    def objective(self, data: TrainingData, *, bits: int, seed: int) -> Objective:
        """A fresh objective: standardised on the clean features, its linear layers drawn from `seed`."""
        head = self.head(data.dim, bits)
        head.fit_inputs(data)
        objective = self.build(head, data, seed=seed)
        draw_layers(objective, seed=seed)
        self.start(head, data, seed=seed)
        return objective

    def head(self, dim: int, bits: int) -> StandardisedHead:
        """An empty hash head."""
        return StandardisedHead(dim, bits)

    def select(self, data: TrainingData, *, seed: int) -> TrainingData:
        """The images that are trained on: all of them."""
        return data

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        raise NotImplementedError

    def start(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> None:
        """Set where training starts: here `head` stays as it was drawn."""


class CleanObjective(Objective):
    """An objective that copies what the frozen backbone saw of the clean images.

    On cached features it looks at the clean images alone, and leaves the loop's views alone. Where the backbone learns
    too, the head reads its embeddings, but what shall be copied stays what the frozen one saw: a teacher that neither
    goes stale nor can be made all alike.
    """

    features: Tensor

    def __init__(self, head: StandardisedHead, data: TrainingData) -> None:
        super().__init__()
        self.head: StandardisedHead = head
        self.register_buffer("features", torch.from_numpy(data.features), persistent=False)

    def cached_loss(self, rows: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """The terms of the clean images in `rows`."""
        return self.terms(self.features[rows], self.targets(rows))

    def tune(self, rows: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """The mean of both views' terms."""
        targets = self.targets(rows)
        one, other = (self.terms(view, targets) for view in (first, second))
        return {name: (value + other[name]) / 2 for name, value in one.items()}

    def targets(self, rows: Tensor) -> Tensor:
        """What shall be copied of the images in `rows`: their stored features, float32 [n, dim]."""
        return self.features[rows]

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The loss of embeddings of n images, float32 [n, dim]: scalars, "loss" first, then its terms."""
        raise NotImplementedError


def draw_images(data: TrainingData, *, count: int, seed: int) -> TrainingData:
    """At most `count` of the training images, in their order; which ones depends on `seed`."""
    if len(data.features) <= count:
        return data
    rows = np.sort(np.random.default_rng(seed).permutation(len(data.features))[:count])
    return data.take(rows)


def draw_layers(module: nn.Module, *, seed: int) -> None:
    """Draw every linear layer in `module`, in their order, from one generator."""
    generator = torch.Generator().manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            draw_uniform(layer, generator)
