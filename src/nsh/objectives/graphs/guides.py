"""Guides: targets for the codes of all pairs of images, weighted by the confidence in them. Knows no backbone.

Luo, Wu, Ma, Chen, Deng, Huang, Hua, "CIMON: Towards High-quality Hash Codes", IJCAI 2021 (arXiv 2010.07804), sections
3.2 and 3.3. A guide is a matrix: its sign is the target S of a pair, 1 or -1, and its size the weight, 0 for a pair
without a target.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nsh.objectives.base import Objective
from nsh.objectives.contrast import ntxent
from nsh.objectives.heads.linear import StandardisedHead

BINS, FARTHEST = 200, 2  # of the histogram of distances: all that cosine distances can be, in bins of 1/100
LEAST_SPREAD = 1e-6  # of half a Gaussian, for images that are all alike


class GuidedObjective(Objective):
    """Consistency of both views' codes with every guide + weight * NT-Xent of the codes of the two views."""

    guides: Tensor

    def __init__(self, head: StandardisedHead, guides: Tensor, *, weight: float, temperature: float) -> None:
        """`guides` is float32 [g, n, n]: one guide or several of all n training images."""
        super().__init__()
        self.head = head
        self.register_buffer("guides", guides, persistent=False)
        self.weight = weight
        self.temperature = temperature

    def cached_loss(self, rows: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Loss, semantic and contrast of two views of the images in `rows`."""
        codes = self.head(torch.cat([first, second])).tanh().chunk(2)
        guides = self.guides[:, rows][:, :, rows]
        semantic = torch.stack([consistency(one, by) for one in codes for by in guides]).sum()
        contrast = ntxent(*codes, temperature=self.temperature)
        return {"loss": semantic + self.weight * contrast, "semantic": semantic, "contrast": contrast}


def consistency(codes: Tensor, guides: Tensor) -> Tensor:
    """Mean over pairs of weight (h_i h_j / bits - S)^2.

    Args:
        codes: h, float [n, bits] in [-1, 1].
        guides: weight times S, float [n, n].
    """
    missed = codes @ codes.T / codes.shape[1] - guides.sign()
    return (guides.abs() * missed.square()).mean()


def cosine_distances(features: Tensor) -> Tensor:
    """1 - cosine of all pairs of images, float [n, n] >= 0 with a diagonal of 0, of features float [n, dim]."""
    unit = functional.normalize(features, dim=1)
    return (1 - unit @ unit.T).clamp_min(0).fill_diagonal_(0)


def label(distances: Tensor, *, similar: float) -> Tensor:
    """S: 1 for the share `similar` of the pairs of different images that are nearest, else -1.

    Args:
        distances: float [n, n] >= 0, of all pairs.
        similar: share of the pairs, in (0, 1).

    Returns:
        float [n, n].
    """
    return torch.where(distances <= _find_threshold(of_different_images(distances), similar), 1.0, -1.0)


def weigh(distances: Tensor, *, similar: float) -> Tensor:
    """The guide of distances alone: S as `label` has it, times the confidence; arguments and shape as there."""
    apart = of_different_images(distances)
    threshold = _find_threshold(apart, similar)
    return label(distances, similar=similar) * confidence(distances, apart=apart, threshold=threshold)


def of_different_images(distances: Tensor) -> Tensor:
    """The entries off the diagonal, float [n (n - 1)], of distances float [n, n]."""
    return distances[~torch.eye(len(distances), dtype=torch.bool)]


def confidence(distances: Tensor, *, apart: Tensor, threshold: float) -> Tensor:
    """How far each distance lies from the threshold, in its side's half Gaussian: 0 at the threshold, 1 far away.

    Args:
        distances: float [n, n] >= 0.
        apart: distances of different images, float [n (n - 1)]: what the Gaussians are fitted to.
        threshold: between similar and not.

    Returns:
        float [n, n] in [0, 1].
    """
    peak = find_peak(apart)
    left, right = (half_spread(apart[side] - peak) for side in (apart <= peak, apart > peak))
    at = torch.tensor([(threshold - peak) / left, (threshold - peak) / right]).to(distances)
    lower, upper = torch.special.ndtr(at)
    similar = 1 - torch.special.ndtr((distances - peak) / left) / lower.clamp_min(torch.finfo(lower.dtype).tiny)
    beyond = torch.special.ndtr((peak - distances) / right) / (1 - upper).clamp_min(torch.finfo(upper.dtype).tiny)
    return torch.where(distances <= threshold, similar, 1 - beyond).clamp(0, 1)


def find_peak(apart: Tensor) -> float:
    """The lower edge of the fullest bin of the histogram of distances, float [m], in bins of 1/100."""
    return float(torch.histc(apart, BINS, 0, FARTHEST).argmax()) * FARTHEST / BINS


def half_spread(differences: Tensor) -> float:
    """Standard deviation of the Gaussian whose half has these differences from its mean, float [m]; at least 1e-6."""
    mean_square = differences.double().square().sum() / max(len(differences), 1)
    return max(math.sqrt(mean_square), LEAST_SPREAD)


def _find_threshold(apart: Tensor, similar: float) -> float:
    return float(np.quantile(apart.numpy(), similar)) if len(apart) else 0.0
