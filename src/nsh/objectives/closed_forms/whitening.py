"""Directions in which images differ and their views do not. Knows features and views, no network.

This is Fisher's discriminant analysis with an image's augmented views as a class: "The Use of Multiple Measurements in
Taxonomic Problems", Annals of Eugenics 1936. After whitening the differences between views of an image, distances
measure what augmentation does not change.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nsh.errors import TrainingError

RIDGE = 1.0  # of the views' covariance, as a share of its mean variance; 0.001 and 0.1 give worse neighbours
FLOOR = 1e-3  # the least ridge, as a share of the images' mean variance, because views may be equal
CHUNK = 500  # images whose views are read at once


def discriminant_directions(features: Tensor, views: NDArray[np.float16], *, scale: Tensor, count: int) -> Tensor:
    """The `count` directions with the largest variance between images to that within an image's views.

    Args:
        features: float64 [n, dim], standardised: centred, and divided by `scale`.
        views: float16 [n, V, dim], the cached views.
        scale: float64 [dim].
        count: at most dim.

    Returns:
        float64 [dim, count]; features @ directions is uncorrelated, largest variance first, mean variance 1.

    Raises:
        TrainingError: all features are equal.
    """
    between = features.T @ features / len(features)
    variance = float(between.diagonal().mean())
    if not variance > 0:
        raise TrainingError("all training images have the same embedding: look at the images or the backbone's weights")
    within = _within(views) / scale[:, None] / scale
    ridge = max(RIDGE * float(within.diagonal().mean()), FLOOR * variance)
    values, vectors = torch.linalg.eigh(within + ridge * torch.eye(len(within), dtype=within.dtype))
    whiten = vectors * values.rsqrt()
    spread, turned = torch.linalg.eigh(whiten.T @ between @ whiten)
    directions: Tensor = whiten @ turned.flip(1)[:, :count] * spread.flip(0)[:count].mean().rsqrt()
    return directions


def _within(views: NDArray[np.float16]) -> Tensor:
    """Covariance of views around the mean of their image, float64 [dim, dim]."""
    images, count, dim = views.shape
    total = torch.zeros(dim, dim, dtype=torch.float64)
    for start in range(0, images, CHUNK):
        some = torch.from_numpy(views[start : start + CHUNK].astype(np.float32))
        apart = (some - some.mean(dim=1, keepdim=True)).reshape(-1, dim)
        total += (apart.T @ apart).double()
    covariance: Tensor = total / (images * max(count - 1, 1))
    return covariance
