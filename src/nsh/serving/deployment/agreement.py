"""How far two indexes of the same items agree about neighbours. Knows no encoder."""

import numpy as np
from numpy.typing import NDArray

from nsh.core.hamming import rank
from nsh.errors import UnknownItem
from nsh.serving.index import Index

ITEMS = 2000
"""Items drawn: the figure hardly depends on the size of the index, because neighbours are looked for among these."""

QUERIES = 200
NEIGHBOURS = 10
MIN_RECALL = 0.3
"""Default of the smallest recall. ITQ and NSH of 16 to 64 bits on one backbone had .45 to .74 of each other (gallery of
the default run), equal codes for all items .04, codes of other items .02."""


def recall_of_neighbours(former: Index, new: Index, *, seed: int = 0) -> float:
    """The share of the former 10 nearest that are among the new 50 nearest, 0..1; 1 where there is nothing to compare.

    Of up to 200 items as queries, among up to 2,000 items that both indexes have, without the query itself. With fewer
    items n, among the new max(10, n / 40) nearest. Equal distances are ordered by insertion.

    Args:
        former: the index whose neighbours count as right.
        new: the index that is judged.
        seed: of the draw of items.
    """
    ids, codes = former.sample(ITEMS, seed=seed)
    theirs = {name: code for name in ids if (code := _code_of(new, name)) is not None}
    if len(theirs) < 2:
        return 1.0
    ours = np.stack([code for name, code in zip(ids, codes, strict=True) if name in theirs])
    return _recall(ours, np.stack([theirs[name] for name in ids if name in theirs]))


def _recall(former: NDArray[np.uint8], new: NDArray[np.uint8]) -> float:
    count = len(former)
    near, wide = min(NEIGHBOURS, count - 1), min(max(NEIGHBOURS, count // 40), count - 1)
    queries = np.arange(0, count, max(1, count // QUERIES))[:QUERIES]
    shares = [
        len(set(old.tolist()) & set(fresh.tolist())) / near
        for old, fresh in zip(_nearest(former, queries, near), _nearest(new, queries, wide), strict=True)
    ]
    return float(np.mean(shares))


def _nearest(codes: NDArray[np.uint8], queries: NDArray[np.int64], k: int) -> list[NDArray[np.int64]]:
    """The k nearest other rows of each query."""
    ranked, _ = rank(codes[queries], codes, k=k + 1)
    return [row[row != query][:k] for query, row in zip(queries, ranked, strict=True)]


def _code_of(index: Index, name: str) -> NDArray[np.uint8] | None:
    try:
        return index.code_of(name)
    except UnknownItem:
        return None
