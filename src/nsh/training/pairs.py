"""Batches of two different views of each image, from cached features. Knows no method and no network.

Batches depend on (seed, epoch) alone, so that a resumed run sees the batches of an uninterrupted one.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Choice = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # rows, first view, second view: [batch] each
Pair = tuple[Tensor, Tensor, Tensor]  # rows int64 [batch], two views float32 [batch, d]


def read_pairs(views: NDArray[np.float16], *, batch: int, seed: int, epochs: Iterable[int]) -> Iterator[Pair]:
    """Yield all batches of the `epochs`, which are numbered from 0.

    Args:
        views: float16 [n, V, d], n >= batch, V >= 2; may be memory-mapped.
        batch: images in a batch.
        seed: the seed of the run.
        epochs: the numbers of the epochs.
    """
    images, count, _ = views.shape
    for epoch in epochs:
        generator = np.random.default_rng([seed, epoch])
        for rows, first, second in draw_pairs(images, count, batch=batch, generator=generator):
            yield torch.from_numpy(rows), read_views(views, rows, first), read_views(views, rows, second)


def draw_pairs(images: int, views: int, *, batch: int, generator: np.random.Generator) -> Iterator[Choice]:
    """One epoch of shuffled batches with two different views of every image; an incomplete last batch is left out."""
    order = generator.permutation(images)
    for start in range(0, images - batch + 1, batch):
        first = generator.integers(views, size=batch)
        second = (first + generator.integers(1, views, size=batch)) % views
        yield order[start : start + batch], first, second


def read_views(views: NDArray[np.float16], rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> Tensor:
    """View chosen[i] of the image in rows[i], float32 [len(rows), d]."""
    return torch.from_numpy(views[rows, chosen]).float()  # torch converts faster than NumPy
