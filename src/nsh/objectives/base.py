"""The definition of a method: from training data to a hash head. Knows no particular method.

`Loop` is the training loop that a method is given; `nsh.training` implements it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from nsh.errors import TrainingError

Report = Callable[[dict[str, float]], None]  # called once an epoch or iteration: {"epoch": 1, "loss": ..., ...}


class HashHead(nn.Module):
    """From embeddings float32 [n, dim] to logits float32 [n, bits]; a bit is 1 if its logit is > 0.

    Its state dict holds everything that was fitted, so that all heads are exported, encoded and evaluated alike.

    Attributes:
        nested: shorter lengths, ascending, at which the first bits of a code are a code too.
    """

    nested: tuple[int, ...] = ()

    def __init__(self, dim: int, bits: int) -> None:
        super().__init__()
        self.dim = dim
        self.bits = bits


@dataclass(frozen=True)
class TrainingData:
    """The frozen backbone's features of the training images.

    Attributes:
        features: float32 [n, d], of the clean images.
        views: float16 [n, V, d], of V augmented views of each image; may be memory-mapped.
        rows: int64 [n], the rows of these images among all training images; None: all images, in their order.

    Raises:
        TrainingError: the shapes do not belong together, or a clean feature is NaN or infinite.
    """

    features: NDArray[np.float32]
    views: NDArray[np.float16]
    rows: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        features, views = self.features.shape, self.views.shape
        if len(features) != 2 or len(views) != 3 or (features[0], features[1]) != (views[0], views[2]):
            raise TrainingError(
                f"features {features} and views {views} do not belong together: "
                "expected [n, d] and [n, V, d]; run the embed stage again"
            )
        if self.rows is not None and self.rows.shape != features[:1]:
            raise TrainingError(
                f"features {features} and rows {self.rows.shape} do not belong together: expected [n, d] and [n]; "
                "select images by TrainingData.take"
            )
        broken = np.flatnonzero(~np.isfinite(self.features).all(axis=1))
        if len(broken):
            raise TrainingError(
                f"the features of {len(broken)} training images are NaN or infinite, the first in row {broken[0]}: "
                "run the embed stage again"
            )

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return int(self.features.shape[1])

    def take(self, rows: NDArray[np.int64]) -> "TrainingData":
        """The data of the images in `rows`, int64 [m], in that order."""
        held = rows if self.rows is None else self.rows[rows]
        return TrainingData(self.features[rows], self.views[rows], held)


class Objective(nn.Module):
    """What a gradient method minimises; only `head` is kept after the training."""

    head: HashHead

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """The loss of two views of n images, float32 [n, d] each: scalars, "loss" first, then its terms."""
        raise NotImplementedError

    def cached_loss(self, rows: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """The loss of two cached views of the images in the data's `rows`, int64 [n]; called by `nsh.training.loop`."""
        terms: dict[str, Tensor] = self(first, second)
        return terms

    def tune(self, rows: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """The loss of two views that the network in training has embedded; called by the fine-tuning loop.

        Gradients reach the network through both views. Stored features come from the frozen backbone and have none.

        Args:
            rows: of the images in `first`, int64 [n].
            first: a view of each image in `rows`, float32 [n, d].
            second: a view of each one's partner (see `partners`), float32 [n, d].
        """
        return self.cached_loss(rows, first, second)

    def partners(self, rows: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Rows of the images of the second views in `tune`, int64 [n], drawn from `generator`; here `rows` itself."""
        return rows


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Epochs, batch and learning rate of Adam."""

    epochs: int
    batch: int  # images in a step; an incomplete last batch is left out
    learning_rate: float


class Loop(Protocol):
    """Minimises an objective in place: `nsh.training.loop` on cached views, `nsh.training.finetune.loop` on images."""

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
        """Train; `identity` holds everything that the result depends on besides data, schedule and seed."""
        ...


class Method(Protocol):
    """A way to learn hash codes without labels."""

    name: str

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Learn a head; closed-form methods do not use the loop.

        Raises:
            TrainingError: the method cannot be trained on this data or with these parameters.
        """
        ...

    def head(self, dim: int, bits: int) -> HashHead:
        """An empty head, to load a state dict into."""
        ...
