"""Some queries and their nearest items, for a picture of the retrieval. Knows nothing of images."""

import numpy as np
from numpy.typing import NDArray

from nsh.core.hamming import rank
from nsh.core.metrics.tables import Table

QUERIES = 8
RESULTS = 10


def find_examples(
    query_codes: NDArray[np.uint8],
    gallery_codes: NDArray[np.uint8],
    query_labels: NDArray[np.bool_] | None,
    *,
    seed: int,
) -> Table:
    """Some queries, drawn by `seed`, and the `RESULTS` nearest items of each, by (distance, gallery row).

    Args:
        query_codes: uint8 [q, bytes].
        gallery_codes: uint8 [g, bytes].
        query_labels: bool [q, classes], None without labels.
        seed: of the draw; it gives the same queries for all codes of one split.

    Returns:
        Columns "query" and "gallery" (rows of both) and "distance", one row an item, nearest first. At most `QUERIES`
        x `RESULTS` rows.

    Examples:
        >>> found = find_examples(np.array([[0b00]], np.uint8), np.array([[0b11], [0b01]], np.uint8), None, seed=0)
        >>> found["gallery"], found["distance"]
        (array([1, 0]), array([1, 2]))
    """
    chosen = choose_queries(len(query_codes), query_labels, count=QUERIES, seed=seed)
    nearest, distances = rank(query_codes[chosen], gallery_codes, k=RESULTS)
    return {
        "query": np.repeat(np.asarray(chosen, dtype=np.int64), nearest.shape[1]),
        "gallery": nearest.ravel(),
        "distance": distances.ravel().astype(np.int64),
    }


def choose_queries(queries: int, labels: NDArray[np.bool_] | None, *, count: int, seed: int) -> list[int]:
    """Rows of `count` queries, drawn at random; no combination of labels is repeated before each was drawn once.

    Examples:
        >>> cat, dog = [True, False], [False, True]
        >>> 2 in choose_queries(3, np.array([cat, cat, dog]), count=2, seed=0)  # one cat and the dog, whatever the seed
        True
    """
    order = np.random.default_rng(seed).permutation(queries)
    if labels is None:
        return [int(row) for row in order[:count]]
    first: list[int] = []
    again: list[int] = []
    seen: set[tuple[int, ...]] = set()
    for row in order:
        names = tuple(map(int, np.flatnonzero(labels[row])))
        (again if names in seen else first).append(int(row))
        seen.add(names)
    return (first + again)[:count]
