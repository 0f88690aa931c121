"""Directions in which images differ and their augmented views do not. Knows no codes and no files.

Cosines along them have better neighbours than those of whole embeddings: mAP@1000 .593 against .512 on CIFAR-10
(EfficientNet-Lite2). This is Fisher's discriminant analysis with the views of an image as a class: "The Use of Multiple
Measurements in Taxonomic Problems", Annals of Eugenics 1936. Methods fit the same inside their heads, by torch
(`nsh.objectives.closed_forms.whitening`); figures are computed without torch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.errors import DataError

COUNT = 16
IMAGES = 1000  # whose views are read, the first of the training images: more of them find no better directions
_RIDGE = 1.0  # of the views' covariance, as a share of its mean variance
_FLOOR = 1e-3  # the least ridge, as a share of the images' mean variance: views may be equal
_CHUNK = 500  # images at once


@dataclass(frozen=True)
class Directions:
    """What embeddings are projected on.

    Attributes:
        mean: float64 [d], of the training images.
        axes: float64 [d, count]; projected training images are uncorrelated.
    """

    mean: NDArray[np.float64]
    axes: NDArray[np.float64]

    def project(self, embeddings: NDArray[np.float32]) -> NDArray[np.float32]:
        """Centred embeddings float32 [n, d] along the axes, float32 [n, count]."""
        projected = np.empty((len(embeddings), self.axes.shape[1]), dtype=np.float32)
        for start in range(0, len(embeddings), _CHUNK):
            rows = slice(start, start + _CHUNK)
            projected[rows] = (embeddings[rows] - self.mean) @ self.axes
        return projected


def find_directions(features: NDArray[np.float32], views: NDArray[np.floating[Any]]) -> Directions:
    """The directions with the largest variance between images to that within an image's views, largest first.

    Args:
        features: float32 [n, d] of the training images.
        views: float [n, V, d], augmented views of them.

    Returns:
        min(COUNT, d) of them.

    Raises:
        DataError: all features are equal, so there is no direction.

    Examples:
        >>> features = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)
        >>> apart = np.array([[0, 2], [0, -2]])  # views differ along the second axis, so the first is more telling
        >>> first = find_directions(features, features[:, None] + apart).axes[:, 0]
        >>> bool(abs(first[0]) > abs(first[1]))
        True
    """
    mean = features.mean(axis=0, dtype=np.float64)
    centred = features - mean
    between = centred.T @ centred / len(centred)
    variance = float(between.diagonal().mean())
    if not variance > 0:
        raise DataError("all training images have the same embedding: look at the images or the backbone's weights")
    within = _within(views[:IMAGES])
    ridge = max(_RIDGE * float(within.diagonal().mean()), _FLOOR * variance)
    # Whitened by the Cholesky factor L of the views' covariance, its eigenvectors u are the directions L^-T u.
    factor = np.linalg.cholesky(within + ridge * np.eye(len(within)))
    half = np.linalg.solve(factor, between)
    turned = np.linalg.eigh(np.linalg.solve(factor, half.T)).eigenvectors[:, ::-1][:, :COUNT]
    return Directions(mean, np.linalg.solve(factor.T, turned))


def _within(views: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Covariance of views around the mean of their image, float64 [d, d]."""
    images, count, width = views.shape
    total = np.zeros((width, width))
    for start in range(0, images, _CHUNK):
        some = views[start : start + _CHUNK].astype(np.float64)
        apart = (some - some.mean(axis=1, keepdims=True)).reshape(-1, width)
        total += apart.T @ apart
    covariance: NDArray[np.float64] = total / (images * max(count - 1, 1))
    return covariance
