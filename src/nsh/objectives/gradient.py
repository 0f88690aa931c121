"""The base of methods that learn by gradient: schedule, standardised head, initialisation, training. Knows no loss.

Other methods were published for raw features of Caffe or VGG and for SGD with various decays. Here all methods use
standardised embeddings of a frozen backbone and Adam, so that losses are compared and not recipes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from nsh.objectives.base import HashHead, Loop, Objective, Report, Schedule, TrainingData
from nsh.objectives.heads.linear import StandardisedHead, draw_uniform
from nsh.system.code import code_digest


@dataclass(frozen=True, kw_only=True)
class GradientMethod:
    """A method with an objective and a schedule."""

    epochs: int
    batch: int
    learning_rate: float

    name: ClassVar[str]

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Minimise the objective and return its hash head.

        `report` gets the objective's terms and bit_balance once an epoch.

        Raises:
            TrainingError: the objective or the loop cannot train on this data.
        """
        data = self.select(data, seed=seed)
        objective = self.objective(data, bits=bits, seed=seed)
        schedule = Schedule(epochs=self.epochs, batch=self.batch, learning_rate=self.learning_rate)
        code = code_digest([type(self).__module__])
        identity: Mapping[str, Any] = {"method": self.name, "bits": bits, "method_code": code, **asdict(self)}
        loop(objective, data, schedule=schedule, seed=seed, identity=identity, report=report)
        return objective.head.eval()

    def objective(self, data: TrainingData, *, bits: int, seed: int) -> Objective:
        """A new objective: standardised on the clean features, its linear layers drawn from `seed`."""
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
        """The images to train on: here all of them."""
        return data

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        raise NotImplementedError

    def start(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> None:
        """Initialise the head: here it stays as it was drawn."""


class CleanObjective(Objective):
    """An objective whose targets are the frozen backbone's features of the clean images.

    On cached features it uses the clean images and ignores the loop's views. If the backbone is trained too, the head
    reads the step's embeddings, and the targets stay those of the frozen backbone: they cannot change or become all
    equal.
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
        """The targets of the images in `rows`: their stored features, float32 [n, dim]."""
        return self.features[rows]

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The loss of the embeddings `inputs`, float32 [n, dim]: scalars, "loss" first, then its terms."""
        raise NotImplementedError


def draw_images(data: TrainingData, *, count: int, seed: int) -> TrainingData:
    """At most `count` of the training images, chosen by `seed`, in their order."""
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
