"""MBE, also known as Bi-half: every bit is 1 for exactly half of the batch.

Li, van Gemert, "Deep Unsupervised Image Hashing by Maximizing Bit Entropy", AAAI 2021. Published: one linear layer u on
frozen VGG-16 features x; the bi-half layer sorts every bit over the batch and makes the upper half +1, the lower half
-1 (the optimal transport of u to a fair coin, section 3.2); its backward pass gives the gradient plus gamma times (u -
b), gamma = 6, divided by the number of entries. The loss is GreedyHash's mean of (cos(b_i, b_j) - cos(x_i, x_j))^2. The
code of an image is sign(u). SGD, 1e-4, a tenth of it every 120 epochs, batches of 32, 300 epochs (read from
liyunqianggyn/Deep-Unsupervised-Image-Hashing; no code is copied).

Differences: embeddings are centred and divided by one number before the linear layer (standardising each feature
retrieves .01 to .02 worse); all pairs of a batch are compared; Adam instead of SGD (at 1e-4, the best of three rates,
see docs/experiments.md). As published, the cosines are those of the features without centring; centred features
retrieve no better.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import CleanObjective, GradientMethod
from nsh.objectives.graphs.cosine_structure import cosine_structure
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.heads.scaled import ScaledHead
from nsh.ranges import Count, Positive, Several, Weight


@dataclass(frozen=True, kw_only=True)
class Mbe(GradientMethod):
    """Li and van Gemert, "Maximizing Bit Entropy" (Bi-half), AAAI 2021.

    Unlike the paper: Adam for SGD; batches of 64 for 32; 30 epochs for 300.
    """

    epochs: Count = 30
    batch: Several = 64
    learning_rate: Positive = 1e-4
    gamma: Weight = 6.0  # how hard the bi-half layer pulls towards its code

    name = "mbe"

    def head(self, dim: int, bits: int) -> ScaledHead:
        """An empty hash head."""
        return ScaledHead(dim, bits)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        return MbeObjective(head, data, self)


class MbeObjective(CleanObjective):
    """Cosine structure of the bi-half codes; the layer's gradient balances the bits."""

    def __init__(self, head: StandardisedHead, data: TrainingData, parameters: Mbe) -> None:
        super().__init__(head, data)
        self.gamma = parameters.gamma

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The loss of the embeddings `inputs` with the cosines of `targets`, float32 [n, dim]."""
        return {"loss": cosine_structure(halve(self.head(inputs), gamma=self.gamma), targets)}


def halve(hidden: Tensor, *, gamma: float) -> Tensor:
    """The bi-half layer: +1 for the upper half of every column, else -1.

    If the number of rows is odd, one more is -1; equal values are divided in the order of their rows.

    Args:
        hidden: u, float [n, bits].
        gamma: strength of the gradient's pull of u towards its code.

    Returns:
        float [n, bits] of exactly +1 and -1; its gradient reaches u as g + gamma (u - b) / (n bits).
    """
    return _Halve.apply(hidden, gamma)  # type: ignore[no-any-return]


class _Halve(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, hidden: Tensor, gamma: float) -> Tensor:
        order = hidden.argsort(dim=0, descending=True, stable=True)
        codes = torch.full_like(hidden, -1.0).scatter(0, order[: len(hidden) // 2], 1.0)
        context.save_for_backward(hidden, codes)
        context.gamma = gamma
        return codes

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        hidden, codes = context.saved_tensors
        return gradients[0] + context.gamma * (hidden - codes) / hidden.numel(), None
