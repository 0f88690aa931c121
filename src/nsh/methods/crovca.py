"""CroVCA: each view's bits are the other view's labels, and a coding rate keeps codes apart.

Moummad, Zaher, Goeau, Joly, "Image Hashing via Cross-View Code Alignment in the Age of Foundation Models", arXiv
2510.27584, 2025. Published, without labels: on frozen embeddings a hidden layer as long as the embedding, a layer of
one logit a bit and a batch normalisation; binary cross entropy of each view's logits with the other view's bits; minus,
weighted 0.1, the coding rate 1/2 logdet(I + d / (n eps) V^T V) of the logits' rows at unit length, eps = 0.05, times (d
+ n) / (d n). AdamW, 1e-3 falling to 0, batches of 256, 5 epochs. The weight, the factor and the schedule are read from
the authors' code (ilyassmoummad/cross-view-code-alignment); no code is copied.

Differences: embeddings are standardised; Adam with a constant rate and without weight decay; layers start uniform. On
10,000 images 25 epochs have as many steps as the published 5 on 50,000.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import GradientMethod
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.heads.perceptron import BalancedPerceptronHead
from nsh.ranges import Count, Positive, Several, Weight


@dataclass(frozen=True, kw_only=True)
class Crovca(GradientMethod):
    """Moummad et al., "Cross-View Code Alignment", arXiv 2510.27584, 2025.

    Unlike the paper: Adam at a constant rate for AdamW with one that falls to 0; as many steps as published where there
    are 10,000 images.
    """

    epochs: Count = 25
    batch: Several = 256
    learning_rate: Positive = 1e-3
    coding_rate: Weight = 0.1  # weight of the coding rate
    epsilon: Positive = 0.05  # of the coding rate

    name = "crovca"

    def head(self, dim: int, bits: int) -> BalancedPerceptronHead:
        """An empty hash head."""
        return BalancedPerceptronHead(dim, bits, hidden=dim)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        return CrovcaObjective(head, self)


class CrovcaObjective(Objective):
    """Alignment of the views' bits - weight * coding rate."""

    def __init__(self, head: StandardisedHead, parameters: Crovca) -> None:
        super().__init__()
        self.head = head
        self.weight = parameters.coding_rate
        self.epsilon = parameters.epsilon

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Loss, alignment and coding rate of two views, embeddings float32 [n, dim] each."""
        one, other = self.head(first), self.head(second)  # batch normalisation uses each view's own statistics
        agreement = (alignment(one, other) + alignment(other, one)) / 2
        rate = (coding_rate(one, epsilon=self.epsilon) + coding_rate(other, epsilon=self.epsilon)) / 2
        return {"loss": agreement - self.weight * rate, "alignment": agreement, "coding_rate": rate}


def alignment(logits: Tensor, others: Tensor) -> Tensor:
    """Mean binary cross entropy of logits, float [n, bits], with the bits of the other view's logits."""
    return functional.binary_cross_entropy_with_logits(logits, (others > 0).to(logits.dtype))


def coding_rate(logits: Tensor, *, epsilon: float) -> Tensor:
    """1/2 logdet(I + d / (n eps) V^T V) (d + n) / (d n), V the rows of logits at unit length.

    Args:
        logits: float [n, d].
        epsilon: eps, the squared distortion.

    Returns:
        float scalar >= 0.
    """
    count, bits = logits.shape
    unit = functional.normalize(logits, dim=1)
    volume = torch.eye(bits, device=logits.device) + bits / (count * epsilon) * unit.T @ unit
    factor = torch.linalg.cholesky(volume.double())  # in float32 it depends on the maker of the processor
    half_logdet: Tensor = factor.diagonal().to(volume.dtype).log().sum()
    return half_logdet * (bits + count) / (bits * count)
