"""Which images are trained on, in which order, and which rank reads which of them. Knows no image and no network.

What is drawn depends on (seed, epoch) alone, so a resumed run goes through the images as an uninterrupted one does.
"""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def hold_out(images: int, *, count: int, seed: int) -> tuple[Rows, Rows]:
    """The rows of `images` images that are trained on and the `count` that are not, both ascending."""
    order = np.random.default_rng(seed).permutation(images)
    return np.sort(order[count:]), np.sort(order[:count])


def draw_batches(rows: Rows, *, batch: int, seed: int, epoch: int) -> list[Rows]:
    """One epoch of shuffled batches; an incomplete last one is left out."""
    return cut_batches(np.random.default_rng([seed, epoch]).permutation(rows), batch=batch)


def cut_batches(rows: Rows, *, batch: int) -> list[Rows]:
    """Batches of rows in their order; an incomplete last one is left out."""
    return [rows[start : start + batch] for start in range(0, len(rows) - batch + 1, batch)]


def shard(rows: Rows, *, rank: int, ranks: int) -> Rows:
    """What rank number `rank` reads of a batch: equal pieces, in the order of the ranks."""
    share = len(rows) // ranks
    return rows[rank * share : (rank + 1) * share]
