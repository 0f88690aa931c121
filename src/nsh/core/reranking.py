"""Re-ranking: a Hamming shortlist is ordered again by the query's logits against the stored bits.

A stored code has only signs. The query still has its logits, which say how sure each of its bits is: a stored bit that
differs where the query's logit is near 0 costs little. Nothing more is stored. Such a distance between real values and
bits is called asymmetric: Gordo, Perronnin, Gong & Lazebnik, "Asymmetric Distances for Binary Embeddings", PAMI 2014.

Knows nothing of indexes, labels or files.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import unpack
from nsh.errors import CodesError

SHORTLIST = 1000
"""Nearest codes that are ordered again; docs/experiments.md has what other numbers gain."""

_PRECISION = 43  # bits of the largest logit: a sum of 512 such integers is exact in int64 and in float64


def shortlist_length(k: int) -> int:
    """Codes to order again if the first `k` are wanted: `SHORTLIST`, or k if that is more.

    Examples:
        >>> shortlist_length(10), shortlist_length(5000)
        (1000, 5000)
    """
    return max(SHORTLIST, k)


def rerank(
    logits: NDArray[np.floating[Any]], codes: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Order a query's shortlist by falling score; equal scores keep their order.

    The score of a code is the sum over its bits of the logit if the bit is 1, and of minus the logit if it is 0. Logits
    are rounded to 2**-43 of the next power of two above the largest, and summed as integers: equal codes have equal
    scores, and no score depends on the order of summation.

    Args:
        logits: float [bits] of the query.
        codes: uint8 [n, ceil(bits / 8)], by (distance, row), so that this is the order of equal scores.

    Returns:
        Places in `codes`, int64 [n], best first, and their scores, float64 [n], in the unit of the logits.

    Raises:
        CodesError: the logits are no finite floats [bits], or the codes have another length.

    Examples:
        >>> codes = np.array([[0b1000_0000], [0b0110_0000]], np.uint8)  # at distances 1 and 2 from 110
        >>> places, scores = rerank(np.array([0.25, 2.0, -0.5]), codes)  # the query's first bit is hardly a 1
        >>> places, scores
        (array([1, 0]), array([ 1.25, -1.25]))
    """
    weights, exponent = _to_integers(logits)
    ones = unpack(codes, bits=len(logits)) @ weights
    scores = 2 * ones - weights.sum()
    places = np.argsort(-scores, kind="stable")
    return places, np.ldexp(scores[places].astype(np.float64), exponent)


def _to_integers(logits: NDArray[np.floating[Any]]) -> tuple[NDArray[np.int64], int]:
    """Integers, and the power of two that makes them logits again."""
    if logits.ndim != 1 or not np.issubdtype(logits.dtype, np.floating):
        raise CodesError(f"a query's logits must be a float array [bits], found {logits.dtype} {list(logits.shape)}")
    if not np.isfinite(logits).all():
        raise CodesError("a logit is NaN or infinite and cannot be summed: look at the network or its input")
    wide = logits.astype(np.float64)
    exponent = int(np.frexp(np.abs(wide).max(initial=0))[1]) - _PRECISION
    return np.rint(np.ldexp(wide, -exponent)).astype(np.int64), exponent
