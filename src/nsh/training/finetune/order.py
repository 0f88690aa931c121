"""Which images are trained on, in which pairs and order, and which rank reads which. Knows no image and no network.

What is drawn depends on (seed, epoch) alone, so a resumed run goes through the images as an uninterrupted one does.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
"""Of images, [n], or of the images of pairs, [n, 2]."""
Partners = Callable[[Rows, np.random.Generator], Rows]
"""Of the images in rows, [n], those that they are paired with, [n], drawn from the generator."""


def hold_out(images: int, *, count: int, seed: int) -> tuple[Rows, Rows]:
    """The rows of `images` images that are trained on and the `count` that are not, both ascending."""
    order = np.random.default_rng(seed).permutation(images)
    return np.sort(order[count:]), np.sort(order[:count])


def draw_batches(rows: Rows, *, partners: Partners, batch: int, seed: int, epoch: int) -> list[Rows]:
    """One epoch of shuffled batches of pairs, [batch, 2] each; an incomplete last one is left out."""
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(rows)
    return cut_batches(pair(order, partners=partners, generator=generator), batch=batch)


def pair(rows: Rows, *, partners: Partners, generator: np.random.Generator) -> Rows:
    """Every one of `rows` with its partner, [n, 2]; with itself where its partner is not one of them.

    So no image is trained on that is held out, and what is validated has never been trained on.
    """
    others = partners(rows, generator)
    return np.stack([rows, np.where(np.isin(others, rows), others, rows)], axis=1)


def cut_batches(rows: Rows, *, batch: int) -> list[Rows]:
    """Batches of rows in their order; an incomplete last one is left out."""
    return [rows[start : start + batch] for start in range(0, len(rows) - batch + 1, batch)]


def shard(rows: Rows, *, rank: int, ranks: int) -> Rows:
    """What rank number `rank` reads of a batch: equal pieces, in the order of the ranks."""
    share = len(rows) // ranks
    return rows[rank * share : (rank + 1) * share]
