"""An estimate of mAP_at_k without labels, for ranking encoders. Knows no files.

    estimate          agreement * sqrt(tightness)
    agreement         mAP at depth k of the codes if related items were the relevant ones
    related(q, g)     g is among the nearest `SHARE` of the gallery to q, by cosine of float embeddings
    tightness         1 - (mean distance to the k nearest codes) / (mean distance to all), over all queries; 0 below 0,
                      and where all codes are equal
    k                 at most `SHARE` of the gallery: of a whole gallery, nothing is near

The related items are many because labels group images coarsely: with a narrow set, codes that copy floats best win,
and not those that group images best. Tightness rewards codes whose groups are dense and far apart; alone it would
reward codes that group images wrongly, and even in a product of equals it prefers coarse groups, the more the longer
codes are: hence the root. Embeddings are projected before (`nsh.core.metrics.directions`).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import unpack
from nsh.core.hamming import query_blocks, rank
from nsh.core.metrics.precision import average_precision
from nsh.errors import DataError

QUERIES = 500
SHARE = 0.05

Codes = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""Of queries and gallery, uint8 [q, bytes] and [g, bytes]."""


@dataclass(frozen=True)
class Estimate:
    """The two terms, each in [0, 1]."""

    agreement: float
    tightness: float

    @property
    def value(self) -> float:
        """It ranks encoders on one gallery, and is no forecast of the mAP with labels."""
        return self.agreement * math.sqrt(self.tightness)


def choose(queries: int) -> NDArray[np.int64]:
    """Rows of at most `QUERIES` of the `queries`, rising, the same in every call: more of them change little.

    Examples:
        >>> choose(3)
        array([0, 1, 2])
    """
    return np.sort(np.random.default_rng(0).permutation(queries)[:QUERIES])


def find_related(
    query: NDArray[np.float32], gallery: NDArray[np.float32], *, share: float = SHARE
) -> NDArray[np.uint8]:
    """Which gallery items are related to each query.

    Args:
        query: float32 [q, d], projected embeddings, q >= 1.
        gallery: float32 [g, d], g >= 1. An all-zero row has cosine 0 with every row.
        share: of the gallery that is related to a query, in (0, 1].

    Returns:
        uint8 [q, ceil(g / 8)], the answers as bits (`np.packbits`). At least `share` of the items, and one, are related
        to each query; more where several are equally near.

    Raises:
        DataError: embeddings are empty, not finite, or not of one width.

    Examples:
        >>> gallery = np.array([[1, 0], [1, 0.1], [-1, 0]], np.float32)
        >>> np.unpackbits(find_related(np.array([[1, -0.2]], np.float32), gallery), axis=1, count=3)
        array([[1, 0, 0]], dtype=uint8)
    """
    _check(query, gallery)
    queries, items = _unit(query), _unit(gallery)
    packed = np.empty((len(queries), -(-len(items) // 8)), np.uint8)
    for block in query_blocks(len(queries), len(items)):
        packed[block] = np.packbits(_nearest(queries[block], items, share=share), axis=1)
    return packed


def estimate_map(codes: Codes, related: NDArray[np.uint8], *, k: int) -> Estimate:
    """Agreement and tightness of codes.

    Args:
        codes: of the images of `related`, in its order.
        related: of `find_related`.
        k: ranks considered, of at most `SHARE` of the gallery.

    Raises:
        CodesError: the two are not packed codes of one length, or k < 1.
        DataError: `related` is of other numbers of images.

    Examples:
        >>> codes = np.array([[0]], np.uint8), np.repeat(np.array([[0], [3], [7], [15]], np.uint8), 10, axis=0)
        >>> related = np.packbits(np.arange(40)[None] % 2, axis=1)  # the first is not, the second is
        >>> estimate_map(codes, related, k=2)  # the nearest two are at distance 0
        Estimate(agreement=0.5, tightness=1.0)
    """
    query, gallery = codes
    if related.shape != (len(query), -(-len(gallery) // 8)):
        raise DataError(f"found codes of {len(query)} x {len(gallery)} images and related items {list(related.shape)}")
    nearest, distances = rank(query, gallery, k=min(k, max(1, round(SHARE * len(gallery)))))
    everywhere = _mean_distance(query, gallery)
    tightness = max(0.0, 1 - float(distances.mean()) / everywhere) if everywhere else 0.0
    return Estimate(_agreement(nearest, related, items=len(gallery)), tightness)


def _agreement(nearest: NDArray[np.int64], related: NDArray[np.uint8], *, items: int) -> float:
    """MAP of the rows `nearest` [q, k] if the related items were the relevant ones."""
    top = [np.unpackbits(row, count=items)[found] for row, found in zip(related, nearest, strict=True)]
    counts = np.bitwise_count(related).sum(axis=1, dtype=np.int64)
    return float(average_precision(np.stack(top).astype(np.bool_), counts)[0].mean())


def _mean_distance(query: NDArray[np.uint8], gallery: NDArray[np.uint8]) -> float:
    """Of all pairs, from the share of ones of each bit."""
    ones, others = (unpack(codes, bits=8 * codes.shape[1]).mean(axis=0) for codes in (query, gallery))
    return float((ones * (1 - others) + others * (1 - ones)).sum())


def _check(query: NDArray[np.float32], gallery: NDArray[np.float32]) -> None:
    if query.ndim != 2 or gallery.ndim != 2 or query.shape[1] != gallery.shape[1] or 0 in query.shape + gallery.shape:
        raise DataError(f"found embeddings {list(query.shape)} and {list(gallery.shape)}: embed the images again")
    if not (np.isfinite(query).all() and np.isfinite(gallery).all()):
        raise DataError("embeddings hold NaN or infinite numbers: embed the images again")


def _nearest(query: NDArray[np.float64], items: NDArray[np.float64], *, share: float) -> NDArray[np.bool_]:
    """Whether each of the unit `items` [g, d] is among the nearest `share` to each unit query: bool [q, g]."""
    cosines = (query @ items.T).astype(np.float32)  # float32 hides the order of summation, which BLAS chooses
    place = len(items) - max(1, round(share * len(items)))
    least = np.partition(cosines, place, axis=1)[:, place, None]
    near: NDArray[np.bool_] = cosines >= least
    return near


def _unit(rows: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    wide = rows.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(wide, length, out=np.zeros_like(wide), where=length > 0)
    return unit
