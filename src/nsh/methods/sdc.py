"""SDC: the codes' similarities have the features' order and a Beta distribution.

Ng, Zhu, Hoe, Chan, Zhang, Song, Xiang, "Unsupervised Hashing with Similarity Distribution Calibration", BMVC 2023.
Features of a network are close together, and codes that copy their cosines use few of the possible distances.
Published: rank pairs of images by their features' cosine; the target of the k-th of K pairs, for the cosine of its
relaxed codes v, is the (2k - 1) / 2K quantile of Beta(5, 5) scaled to [-1, 1], cut off below 0. The loss is the mean
absolute difference, plus the quantisation 1 - cos(v, sign v). The head is a hidden layer as long as the embedding, then
a batch normalisation. Adam, batches of 64, 100 epochs. Open points (the cut, the absolute value, the head) are read
from the authors' code (kamwoh/sdc); no code is copied.

Differences: all pairs of a batch are ranked, not half a batch against the other half; embeddings are standardised; the
hidden layer has a ReLU where theirs has a GELU; fewer epochs. Their variant with a contrastive loss is left out.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import CleanObjective, GradientMethod
from nsh.objectives.heads.binary import sign
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.heads.perceptron import BalancedPerceptronHead
from nsh.ranges import Count, OneOrMore, Positive, Several, Weight

GRID = 100_001  # points of the numerical integration


@dataclass(frozen=True, kw_only=True)
class Sdc(GradientMethod):
    """Ng et al., "Similarity Distribution Calibration", BMVC 2023.

    Unlike the paper: 15 epochs for 100.
    """

    epochs: Count = 15
    batch: Several = 64
    learning_rate: Positive = 1e-3
    beta: OneOrMore = 5.0  # the codes' similarities are spread as Beta(beta, beta)
    quantisation: Weight = 1.0  # weight of the quantisation

    name = "sdc"

    def head(self, dim: int, bits: int) -> BalancedPerceptronHead:
        """An empty hash head."""
        return BalancedPerceptronHead(dim, bits, hidden=dim)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        return SdcObjective(head, data, self)


class SdcObjective(CleanObjective):
    """Calibration of the similarities + weight * quantisation."""

    quantiles: Tensor

    def __init__(self, head: StandardisedHead, data: TrainingData, parameters: Sdc) -> None:
        super().__init__(head, data)
        pairs = parameters.batch * (parameters.batch - 1) // 2
        quantiles = np.maximum(2 * beta_quantiles(pairs, beta=parameters.beta) - 1, 0)
        self.register_buffer("quantiles", torch.from_numpy(quantiles.astype(np.float32)), persistent=False)
        self.weight = parameters.quantisation

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Loss, calibration and quantisation of `inputs`, ranked by the cosines of `targets`, float32 [batch, dim]."""
        codes = self.head(inputs)
        difference = calibration(codes, targets, self.quantiles)
        rounding = (1 - functional.cosine_similarity(codes, sign(codes), dim=1)).mean()
        return {"loss": difference + self.weight * rounding, "calibration": difference, "quantisation": rounding}


def calibration(codes: Tensor, features: Tensor, quantiles: Tensor) -> Tensor:
    """Mean |cos(v_i, v_j) - quantile| over pairs i < j, with quantiles assigned in the order of cos(x_i, x_j).

    Args:
        codes: relaxed codes v, float [n, bits].
        features: x, float [n, dim]; no gradient reaches them.
        quantiles: rising, float [n (n - 1) / 2].

    Returns:
        float scalar.
    """
    first, second = torch.triu_indices(len(codes), len(codes), offset=1, device=codes.device)
    order = _cosines(features.detach())[first, second].argsort(stable=True)
    return (_cosines(codes)[first, second][order] - quantiles).abs().mean()


def _cosines(vectors: Tensor) -> Tensor:
    unit = functional.normalize(vectors, dim=1)
    return unit @ unit.T


def beta_quantiles(count: int, *, beta: float) -> NDArray[np.float64]:
    """The (2k - 1) / 2 count quantiles of Beta(beta, beta), k = 1 ... count: float64 [count] in (0, 1), rising.

    Args:
        count: how many.
        beta: both shape parameters, >= 1.
    """
    points = np.linspace(0, 1, GRID)
    density = (points * (1 - points)) ** (beta - 1)
    cumulated = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    shares = (2 * np.arange(1, count + 1) - 1) / (2 * count)
    return np.interp(shares, cumulated / cumulated[-1], points)
