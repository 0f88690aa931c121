"""Figures of each query from counts; their means over all queries are the published figures.

`nsh.core.metrics` has the definitions. Knows nothing of blocks and threads.
"""

import numpy as np
from numpy.typing import NDArray

from nsh.core.metrics.precision import average_precision, expected_average_precision, ratio
from nsh.core.metrics.ranking import Ranked

RADIUS = 2  # of the ball around a query in P_at_H2 and empty_ball_share
CURVE_DEPTH = 1000  # ranks of the P@k curve

Figures = dict[str, NDArray[np.float64]]


def retrieval_figures(ranked: Ranked, *, k: int, ranks: NDArray[np.int64]) -> Figures:
    """Figures of n queries: scalars as [n], by their published names with the letter k, and curves as [n, points].

    Args:
        ranked: the queries' counts, `ranked.top` at least k deep.
        k: ranks considered, at most the gallery's size.
        ranks: the ranks of `ranked.sampled`.

    Examples:
        >>> from nsh.core.metrics.ranking import rank_block
        >>> distances, relevant, ranks = np.array([[0, 1, 3]], np.uint8), np.array([[True, False, True]]), np.array([3])
        >>> ranked = rank_block(distances, relevant, bits=8, depth=3, ranks=ranks)
        >>> figures = retrieval_figures(ranked, k=2, ranks=ranks)
        >>> figures["P_at_k"], figures["recall_at_k"], figures["P_at_H2"]
        (array([0.5]), array([0.5]), array([0.5]))
    """
    relevant = ranked.hits.sum(axis=1)
    hits_average, min_average = average_precision(ranked.top[:, :k], relevant)
    found = np.cumsum(ranked.top, axis=1, dtype=np.int64)
    curve = found[:, :CURVE_DEPTH]
    returned, returned_hits = np.cumsum(ranked.counts, axis=1), np.cumsum(ranked.hits, axis=1)
    lookup = ratio(returned_hits, returned)
    radius = min(RADIUS, returned.shape[1] - 1)
    return {
        "mAP_at_k": hits_average,
        "mAP_min_at_k": min_average,
        "mAP_tie_aware_at_k": expected_average_precision(ranked.counts, ranked.hits, k=k),
        "P_at_k": found[:, k - 1] / k,
        "recall_at_k": ratio(found[:, k - 1], relevant),
        "P_at_H2": lookup[:, radius],
        "empty_ball_share": (returned[:, radius] == 0).astype(np.float64),
        "depth_precision": curve / np.arange(1, curve.shape[1] + 1),
        "depth_recall": ratio(curve, relevant[:, None]),
        "rank_precision": ranked.sampled / ranks,
        "rank_recall": ratio(ranked.sampled, relevant[:, None]),
        "radius_precision": lookup,
        "radius_recall": ratio(returned_hits, relevant[:, None]),
        "radius_empty": (returned == 0).astype(np.float64),
    }


def reranked_figures(top: NDArray[np.bool_], relevant: NDArray[np.int64], *, k: int) -> Figures:
    """Figures of n queries whose shortlists were ordered again, by their published names with the letter k.

    Args:
        top: bool [n, shortlist], whether the item at each rank is relevant; at least k ranks.
        relevant: int64 [n], relevant items in the gallery.
        k: ranks considered.

    Examples:
        >>> reranked_figures(np.array([[False, True, True]]), np.array([2]), k=2)
        {'mAP_at_k_reranked': array([0.5])}
    """
    return {"mAP_at_k_reranked": average_precision(top[:, :k], relevant)[0]}
