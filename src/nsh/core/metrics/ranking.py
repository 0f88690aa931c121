"""Counts along the rankings of a block of queries, from which the figures are computed.

It reads distances and relevance, and knows nothing of codes or labels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SAMPLED_RANKS = 200
_NARROW_KEY = 32  # bits


@dataclass(frozen=True)
class Ranked:
    """Counts of n queries over a gallery of g items, ranked by (distance, gallery row)."""

    counts: NDArray[np.int64]  # [n, bits + 1] items at each distance 0..bits
    hits: NDArray[np.int64]  # [n, bits + 1] relevant items among them
    top: NDArray[np.bool_]  # [n, depth] whether the item at each of the first ranks is relevant
    rows: NDArray[np.int64]  # [n, depth] gallery rows of these items
    sampled: NDArray[np.int64]  # [n, s] relevant items up to each sampled rank


def sample_ranks(gallery: int) -> NDArray[np.int64]:
    """All ranks 1..gallery if they are at most 200, else about 200, evenly spaced in their logarithm.

    Examples:
        >>> sample_ranks(5)
        array([1, 2, 3, 4, 5])
    """
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
        depth: ranks whose relevance and rows are kept one by one, <= g.
        ranks: ascending ranks at which hits are counted; the last one is g.

    Examples:
        >>> distances, relevant = np.array([[2, 0, 2]], np.uint8), np.array([[True, False, False]])
        >>> ranked = rank_block(distances, relevant, bits=2, depth=3, ranks=np.array([1, 3]))
        >>> ranked.counts, ranked.hits, ranked.top, ranked.rows
        (array([[1, 0, 2]]), array([[0, 0, 1]]), array([[False,  True, False]]), array([[1, 0, 2]]))
    """
    count, items = distances.shape
    shift = (items - 1).bit_length() + 1
    key: type[np.unsignedinteger] = np.uint32 if shift + bits.bit_length() <= _NARROW_KEY else np.uint64
    rows = np.left_shift(np.arange(items), 1).astype(key)
    mask = key((1 << (shift - 1)) - 1)  # of the gallery row in a key, without the bit of relevance
    limits = np.left_shift(np.arange(1, bits + 1), shift).astype(key)  # limits[d] is above all keys of distance d
    ends = np.full((count, bits + 1), items)
    hits, segments = np.zeros((count, bits + 1), dtype=np.int64), np.empty((count, len(ranks)), dtype=np.int64)
    top, nearest = np.empty((count, depth), dtype=np.bool_), np.empty((count, depth), dtype=np.int64)
    for row in range(count):
        keys = _sort_keys(distances[row], relevant[row], rows=rows, shift=shift)
        ranked = (keys & 1).astype(np.uint8)
        top[row] = ranked[:depth]
        nearest[row] = (keys[:depth] >> 1) & mask
        ends[row, :-1] = np.searchsorted(keys, limits)
        starts = np.concatenate([[0], ends[row, :-1]])
        present = starts < ends[row]
        hits[row, present] = _sum_segments(ranked, starts[present])
        segments[row] = _sum_segments(ranked, np.concatenate([[0], ranks[:-1]]))
    return Ranked(np.diff(ends, axis=1, prepend=0), hits, top, nearest, np.cumsum(segments, axis=1))


def _sort_keys(
    distances: NDArray[np.uint8] | NDArray[np.uint16],
    relevant: NDArray[np.bool_],
    *,
    rows: NDArray[np.unsignedinteger],
    shift: int,
) -> NDArray[np.unsignedinteger]:
    """One query's items in ranking order, as integers: distance from bit `shift` up, gallery row, relevance in bit 0.

    Distance and row make them unique, so every sort gives the same order; numpy sorts plain integers fastest.
    """
    keys = distances.astype(rows.dtype)
    np.left_shift(keys, shift, out=keys)
    np.bitwise_or(keys, rows, out=keys)
    np.bitwise_or(keys, relevant, out=keys)
    keys.sort()
    return keys


def _sum_segments(values: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Sums of the segments that begin at the strictly rising `starts`; the last segment ends at the end."""
    return np.add.reduceat(values, starts, dtype=np.uint32)
