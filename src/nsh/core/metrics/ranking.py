"""What a block of queries finds along its rankings, in counts: everything the figures are made of.

Knows nothing of codes or labels: it reads distances and relevance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SAMPLED_RANKS = 200


@dataclass(frozen=True)
class Ranked:
    """Counts of n queries over a gallery of g items, ranked by (distance, gallery row)."""

    counts: NDArray[np.int64]  # [n, bits + 1] items at each distance 0..bits
    hits: NDArray[np.int64]  # [n, bits + 1] relevant items among them
    top: NDArray[np.bool_]  # [n, depth] whether the item at each of the first ranks is relevant
    sampled: NDArray[np.int64]  # [n, s] relevant items up to each sampled rank


def sample_ranks(gallery: int) -> NDArray[np.int64]:
    """All ranks 1..gallery if they are at most 200, else about as many, evenly spaced in their logarithm."""
    if gallery <= _SAMPLED_RANKS:
        return np.arange(1, gallery + 1)
    return np.unique(np.round(np.geomspace(1, gallery, _SAMPLED_RANKS)).astype(np.int64))


def rank_block(
    distances: NDArray[np.uint8] | NDArray[np.uint16],
    relevant: NDArray[np.bool_],
    *,
    bits: int,
    depth: int,
    ranks: NDArray[np.int64],
) -> Ranked:
    """Rank every row of `distances` [n, g] and count the `relevant` ones (bool [n, g]).

    Args:
        distances: integers in [0, bits].
        relevant: whether each item is relevant.
        bits: length of the codes.
        depth: ranks whose relevance is kept one by one, <= g.
        ranks: ascending ranks, the last one g, up to which hits are counted.
    """
    count = len(distances)
    cells = np.empty((count, bits + 1, 2), dtype=np.int64)
    top = np.empty((count, depth), dtype=np.bool_)
    segments = np.empty((count, len(ranks)), dtype=np.int64)
    starts = np.concatenate([[0], ranks[:-1]])
    for row in range(count):
        cells[row] = _count_cells(distances[row], relevant[row], bits=bits)
        order = np.argsort(distances[row], kind="stable")  # a radix sort: these integers are narrow
        ranked = relevant[row].take(order)
        top[row] = ranked[:depth]
        np.add.reduceat(ranked, starts, dtype=np.int64, out=segments[row])
    return Ranked(cells.sum(axis=2), cells[:, :, 1], top, np.cumsum(segments, axis=1))


def _count_cells(
    distances: NDArray[np.uint8] | NDArray[np.uint16], relevant: NDArray[np.bool_], *, bits: int
) -> NDArray[np.int64]:
    """Items [bits + 1, 2] at each distance, (irrelevant, relevant)."""
    cell = distances.astype(np.intp)
    cell <<= 1
    cell |= relevant
    return np.bincount(cell, minlength=2 * (bits + 1)).reshape(bits + 1, 2)
