"""Exact Hamming search over packed codes in memory or in a mapped file, by FAISS.

The order is that of `nsh.core.hamming`: by (distance, row), also where equal distances straddle the k-th place.
FAISS's heap variant ("hc") gives that order by itself: it reads rows in ascending order, takes a row in only when it is
strictly nearer than the worst one held, and breaks ties inside its heap by row. FAISS does not promise this, so the
tests hold it against `nsh.core.hamming.rank` with codes that are nearly all ties.
Knows nothing of ids, versions or files.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

import faiss
import numpy as np
from numpy.typing import NDArray

Found = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows and distances, both int64 [found], ordered by (distance, row)."""

_PART = 16  # queries that share one walk over the codes; a thread takes one part after the other


def nearest(query: NDArray[np.uint8], codes: NDArray[np.uint8], *, k: int, threads: int = 1) -> list[Found]:
    """The min(k, n) nearest rows of `codes` (uint8 [n, bytes]) for each query (uint8 [q, bytes]), k >= 1."""
    width = min(k, len(codes))
    if not width or not len(query):
        return [_nothing() for _ in query]

    def search(part: NDArray[np.uint8]) -> list[Found]:
        with use_threads(1):
            distances, rows = faiss.knn_hamming(part, codes, width, variant="hc")
        return list(zip(rows, distances.astype(np.int64), strict=True))

    return _shared(search, query, threads=threads)


def _shared(
    search: Callable[[NDArray[np.uint8]], list[Found]], query: NDArray[np.uint8], *, threads: int
) -> list[Found]:
    """Search part by part in threads of our own: FAISS's wait for each other after every block of codes, spinning."""
    parts = [query[start : start + _PART] for start in range(0, len(query), _PART)]
    if threads == 1 or len(parts) == 1:
        return [found for part in parts for found in search(part)]
    with ThreadPoolExecutor(threads) as pool:
        return [found for results in pool.map(search, parts) for found in results]


def within(query: NDArray[np.uint8], codes: NDArray[np.uint8], *, radius: int, threads: int = 1) -> list[Found]:
    """The rows of `codes` at a distance <= `radius` (inclusive, >= 0) of each query; shapes as in `nearest`."""
    if not len(codes) or not len(query):
        return [_nothing() for _ in query]
    codes = np.ascontiguousarray(codes)
    return _shared(lambda part: _within(np.ascontiguousarray(part), codes, radius), query, threads=threads)


def _within(query: NDArray[np.uint8], codes: NDArray[np.uint8], radius: int) -> list[Found]:
    (count, width), result = query.shape, faiss.RangeSearchResult(len(query))
    pointers = faiss.swig_ptr(query), faiss.swig_ptr(codes)
    with use_threads(1):
        # FAISS's radius is exclusive.
        faiss.hamming_range_search(  # type: ignore[attr-defined]
            *pointers, count, len(codes), radius + 1, width, result
        )
    ends = faiss.rev_swig_ptr(result.lims, count + 1).astype(np.int64)
    rows = faiss.rev_swig_ptr(result.labels, int(ends[-1])).copy()  # the memory is the result's, and goes with it
    distances = faiss.rev_swig_ptr(result.distances, int(ends[-1])).astype(np.int64)
    return [in_order(rows[a:b], distances[a:b]) for a, b in pairwise(ends)]


def in_order(rows: NDArray[np.int64], distances: NDArray[np.int64]) -> Found:
    """The same rows, ordered by (distance, row)."""
    order = np.lexsort((rows, distances))
    return rows[order], distances[order]


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let FAISS use `count` threads inside the block; the setting is the calling thread's own, others keep theirs."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _nothing() -> Found:
    return np.empty(0, np.int64), np.empty(0, np.int64)
