"""The order of training images: held-out images, pairs, batches, and each rank's share. Knows no image and no network.

The order depends on (seed, epoch) alone, so that a resumed run sees the images in the order of an uninterrupted one.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
"""Rows of images, [n], or of pairs of images, [n, 2]."""
WATCHED = 512
"""Largest number of clean images whose bit balance is computed after an epoch."""
Partners = Callable[[Rows, np.random.Generator], Rows]
"""From rows of images, [n], to the rows of their partners, [n], drawn from the generator."""


def hold_out(images: int, *, count: int, seed: int) -> tuple[Rows, Rows]:
    """Split the rows of `images` images: those to train on, and `count` held out; both ascending."""
    order = np.random.default_rng(seed).permutation(images)
    return np.sort(order[count:]), np.sort(order[:count])


def space_evenly(images: int) -> Rows:
    """The rows of at most `WATCHED` of `images` images, evenly spaced."""
    return np.arange(images)[:: -(-images // WATCHED)]


def draw_batches(rows: Rows, *, partners: Partners, batch: int, seed: int, epoch: int) -> list[Rows]:
    """One epoch of shuffled batches of pairs, [batch, 2] each; an incomplete last batch is left out."""
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(rows)
    return cut_batches(pair(order, partners=partners, generator=generator), batch=batch)


def pair(rows: Rows, *, partners: Partners, generator: np.random.Generator) -> Rows:
    """Pair each of `rows` with its partner, [n, 2]; with itself if the partner is not among `rows`.

    So training never sees a held-out image, and validation never sees a training image.
    """
    others = partners(rows, generator)
    return np.stack([rows, np.where(np.isin(others, rows), others, rows)], axis=1)


def cut_batches(rows: Rows, *, batch: int) -> list[Rows]:
    """Cut rows into batches in their order; an incomplete last batch is left out."""
    return [rows[start : start + batch] for start in range(0, len(rows) - batch + 1, batch)]


def shard(rows: Rows, *, rank: int, ranks: int) -> Rows:
    """The part of a batch that rank number `rank` reads: equal parts, in the order of the ranks."""
    share = len(rows) // ranks
    return rows[rank * share : (rank + 1) * share]
