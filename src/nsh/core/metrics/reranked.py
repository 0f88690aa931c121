"""Relevance along the shortlists of a block of queries, ordered again by their logits. Knows nothing of labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import binarize, pack
from nsh.core.metrics.ranking import Ranked
from nsh.core.reranking import rerank
from nsh.errors import CodesError


def rerank_block(
    ranked: Ranked, logits: NDArray[np.floating[Any]], gallery_codes: NDArray[np.uint8], *, length: int
) -> NDArray[np.bool_]:
    """Whether the item at each rank is relevant, bool [n, min(length, depth)], after `nsh.core.reranking.rerank`.

    Args:
        ranked: of n queries, `depth` ranks deep.
        logits: float [n, bits], the queries'.
        gallery_codes: uint8 [g, bytes].
        length: of the shortlist.

    Examples:
        >>> from nsh.core.metrics.ranking import rank_block
        >>> distances, relevant = np.array([[1, 2]], np.uint8), np.array([[False, True]])
        >>> ranked = rank_block(distances, relevant, bits=8, depth=2, ranks=np.array([2]))
        >>> gallery = np.array([[0b1000_0000], [0b0110_0000]], np.uint8)
        >>> rerank_block(ranked, np.array([[0.25, 2.0, -0.5]]), gallery, length=2)
        array([[ True, False]])
    """
    shortlists = zip(logits, ranked.rows[:, :length], ranked.top[:, :length], strict=True)
    return np.stack([relevant[rerank(query, gallery_codes[rows])[0]] for query, rows, relevant in shortlists])


def check_logits(logits: NDArray[np.floating[Any]], codes: NDArray[np.uint8]) -> None:
    """Make sure that `logits` (float [n, bits]) are those of which `codes` (uint8 [n, bytes]) are the signs.

    Raises:
        CodesError: they are not.

    Examples:
        >>> check_logits(np.array([[0.5, -0.5]]), np.array([[0b0100_0000]], np.uint8))
        Traceback (most recent call last):
        nsh.errors.CodesError: the logits of 1 of 1 queries are not those of their codes: encode again
    """
    expected = pack(binarize(logits))
    if expected.shape != codes.shape:
        raise CodesError(f"found logits {list(logits.shape)} and codes {list(codes.shape)}: encode the queries again")
    wrong = int((expected != codes).any(axis=1).sum())
    if wrong:
        raise CodesError(f"the logits of {wrong} of {len(codes)} queries are not those of their codes: encode again")
