"""Average precision in its three forms. Knows nothing of codes: it reads relevance along a ranking.

References:
    Yu et al., "Learning to Hash Naturally Sorts", IJCAI 2022, section 4: mAP@k. Their tables have mAP@1000 above
    P@1000, which only the denominator r_k allows.
    McSherry & Najork, "Computing Information Retrieval Performance Measures Efficiently in the Presence of
    Tied Scores", ECIR 2008, section 2.4: the expectation over tie orders, there without a cut at k.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def ratio(numerator: Counts | Floats, denominator: Counts | Floats) -> Floats:
    """`numerator / denominator` elementwise (shapes broadcast), and 0 where the denominator is 0.

    Examples:
        >>> ratio(np.array([1.0, 2.0]), np.array([2.0, 0.0]))
        array([0.5, 0. ])
    """
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    return np.divide(numerator, denominator, out=np.zeros(shape), where=np.broadcast_to(denominator != 0, shape))


def average_precision(top: NDArray[np.bool_], relevant: Counts) -> tuple[Floats, Floats]:
    """Average precision of each query's first k ranks, by both denominators.

    With S = sum over relevant ranks j <= k of (relevant items up to j) / j:

    - hits: S / r_k, r_k = relevant items in the top k; 0 if there is none. One hit at rank 1 and no other scores 1.
    - min: S / min(R, k), R = relevant items in the whole gallery; 0 if R is 0.

    Args:
        top: bool [n, k], whether the item at each rank is relevant.
        relevant: int64 [n], R of each query.

    Returns:
        (hits, min), float64 [n] each, in [0, 1].

    Examples:
        >>> average_precision(np.array([[True, False, False, True]]), relevant=np.array([4]))
        (array([0.75]), array([0.375]))
    """
    depth = top.shape[1]
    hits = np.cumsum(top, axis=1, dtype=np.int64)
    total = np.where(top, hits / np.arange(1, depth + 1), 0.0).sum(axis=1)
    return ratio(total, hits[:, -1]), ratio(total, np.minimum(relevant, depth))


def expected_average_precision(counts: Counts, hits: Counts, *, k: int) -> Floats:
    """Expected average precision @ k, if items at equal distances come in uniformly random order. Exact.

    A group of equal distances that is wholly in the top k adds its expected sum, independent of other groups. The
    group that the cut at k splits puts x relevant items in the top k with hypergeometric probability. Given x, its
    part inside the cut is again a uniformly random order, and the denominator r_k is known. So

        E[AP@k] = sum over x of  P(x) * (whole groups + split group given x) / (hits before the split + x),

    where a term with denominator 0 is 0. The result does not depend on the gallery's order, not even by rounding.

    Args:
        counts: int64 [n, d], items at each distance, nearest first.
        hits: int64 [n, d], relevant items among them.
        k: ranks considered; at most counts.sum(axis=1), which is the same for all queries.

    Returns:
        float64 [n], in [0, 1].

    Examples:
        >>> expected_average_precision(np.array([[2]]), np.array([[1]]), k=2)  # 1 and 1/2, equally likely
        array([0.75])
    """
    before, hits_before = np.cumsum(counts, axis=1) - counts, np.cumsum(hits, axis=1) - hits
    inside = before + counts <= k
    whole = _expected_sum(before, hits_before, np.where(inside, counts, 0), hits, upto=k).sum(axis=1)
    split = np.argmin(inside, axis=1)[:, None]  # the first group that is not inside; group 0 if all are
    start, found, size, relevant = (np.take_along_axis(a, split, axis=1) for a in (before, hits_before, counts, hits))
    unsplit = inside.all(axis=1, keepdims=True)
    taken = np.where(unsplit, 0, k - start)
    found = np.where(unsplit, hits.sum(axis=1, keepdims=True), found)
    chosen = np.arange(taken.max() + 1)[None, :]  # x
    chance = _hypergeometric(chosen, size=size, relevant=relevant, taken=taken)
    total = whole[:, None] + _expected_sum(start, found, taken, chosen, upto=k)
    expected: Floats = (chance * ratio(total, found + chosen)).sum(axis=1)
    return expected


def _expected_sum(start: Counts, found: Counts, size: Counts, relevant: Counts, *, upto: int) -> Floats:
    """Expected sum of precisions at the relevant ranks of groups in random order; 0 for groups of size 0.

    A group fills the ranks start + 1 .. start + size with `relevant` relevant items, after `found` relevant ones.
    Rank start + i is relevant with chance relevant / size, and then expects (i - 1)(relevant - 1) / (size - 1)
    others of its group before it. All ranks are at most `upto`.
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, upto + 1))])
    first, last = np.minimum(start, upto), np.minimum(start + size, upto)
    inverse_ranks = harmonic[last] - harmonic[first]  # sum of 1 / (start + i)
    earlier = size - (start + 1) * inverse_ranks  # sum of (i - 1) / (start + i)
    expected: Floats = ratio(relevant, size) * ((found + 1) * inverse_ranks + ratio(relevant - 1, size - 1) * earlier)
    return expected


def _hypergeometric(chosen: Counts, *, size: Counts, relevant: Counts, taken: Counts) -> Floats:
    """Chance [n, x] that `taken` of `size` items, `relevant` of them relevant, hold `chosen` relevant ones.

    Computed from the ratios of neighbouring chances, from the smallest possible x up, and normalised: without
    factorials it cannot overflow. size, relevant and taken are [n, 1], chosen is [1, x].
    """
    lowest, highest = np.maximum(0, taken - (size - relevant)), np.minimum(relevant, taken)
    rising = (chosen > lowest) & (chosen <= highest)
    grown = np.where(rising, (relevant - chosen + 1) * (taken - chosen + 1), 1)
    shrunk = np.where(rising, chosen * (size - relevant - taken + chosen), 1)
    logarithm = np.cumsum(np.log(grown) - np.log(shrunk), axis=1)
    logarithm = np.where((chosen >= lowest) & (chosen <= highest), logarithm, -np.inf)
    chance = np.exp(logarithm - logarithm.max(axis=1, keepdims=True))
    normalised: Floats = chance / chance.sum(axis=1, keepdims=True)
    return normalised
