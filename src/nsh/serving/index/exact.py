"""Exact Hamming search over packed codes in memory, by FAISS.

The order is that of `nsh.core.hamming`: by (distance, row), also among equal distances at the k-th place. For many rows
FAISS compares with a bound, and the rows within it are sorted here. For few rows, or if most distances are equal,
FAISS's heap variant ("hc") gives the order itself: it reads rows in ascending order, takes a row only if it is strictly
nearer than the worst row held, and breaks ties in its heap by row. FAISS does not promise this, so the tests compare it
with `nsh.core.hamming.rank` on codes that are nearly all ties. Knows no id, version or file.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

import faiss
import numpy as np
from numpy.typing import NDArray

_SAMPLED_FROM = 65_536  # rows; fewer are searched faster than a sample is drawn
_RUN, _STEP = 128, 4096
_SLACK = 4
_STEP_WITHIN = 1 << 17  # rows

Found = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows and distances, both int64 [found], ordered by (distance, row)."""

_PART = 16  # queries that share one pass over the codes; a thread takes one part after the other


def nearest(query: NDArray[np.uint8], codes: NDArray[np.uint8], *, k: int, threads: int = 1) -> list[Found]:
    """The min(k, n) nearest rows of `codes` (uint8 [n, bytes]) for each query (uint8 [q, bytes]), k >= 1."""
    width = min(k, len(codes))
    if not width or not len(query):
        return [_nothing() for _ in query]
    codes = np.ascontiguousarray(codes)
    sample = _sample(codes)
    if len(sample) < _SLACK * width or len(codes) < _SAMPLED_FROM:
        return _shared(lambda part: _by_heap(part, codes, width), query, threads=threads)
    return _shared(lambda part: _by_bound(part, codes, sample, width), query, threads=threads)


def _by_heap(query: NDArray[np.uint8], codes: NDArray[np.uint8], k: int) -> list[Found]:
    with use_threads(1):
        distances, rows = faiss.knn_hamming(query, codes, k, variant="hc")
    return list(zip(rows, distances.astype(np.int64), strict=True))


def _by_bound(query: NDArray[np.uint8], codes: NDArray[np.uint8], sample: NDArray[np.uint8], k: int) -> list[Found]:
    """Search with a bound: the k-th distance in a sample bounds the k-th of all. The rows within it are sorted here.

    A pass that only compares with a bound takes half the time of one that keeps a heap. If the sample shows that too
    many rows would be within the bound, because many are equally far, the heap is used.
    """
    with use_threads(1):
        bounds, _ = faiss.knn_hamming(query, sample, _SLACK * k, variant="hc")
    found = []
    for row, bound in enumerate(bounds):
        one = query[row : row + 1]
        if bound[k - 1] == bound[-1]:
            found += _by_heap(one, codes, k)
        else:
            ((rows, distances),) = _within(one, codes, int(bound[k - 1]))
            found.append((rows[:k], distances[:k]))
    return found


def _sample(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """`_RUN` rows of every `_STEP`, so that the sample covers all parts of the codes."""
    whole = codes[: len(codes) // _STEP * _STEP].reshape(-1, _STEP, codes.shape[1])
    return np.ascontiguousarray(whole[:, :_RUN]).reshape(-1, codes.shape[1])


def _shared(
    search: Callable[[NDArray[np.uint8]], list[Found]], query: NDArray[np.uint8], *, threads: int
) -> list[Found]:
    """Search part by part in our own threads: FAISS's threads spin to wait for each other after every block."""
    parts = [query[start : start + _PART] for start in range(0, len(query), _PART)]
    if threads == 1 or len(parts) == 1:
        return [found for part in parts for found in search(part)]
    with ThreadPoolExecutor(threads) as pool:
        return [found for results in pool.map(search, parts) for found in results]


def within(
    query: NDArray[np.uint8], codes: NDArray[np.uint8], *, radius: int, limit: int | None = None, threads: int = 1
) -> list[Found]:
    """The rows of `codes` at a distance <= `radius` (inclusive, >= 0) of each query; shapes as in `nearest`.

    With a `limit` >= 1, the first of them, in memory that does not grow with the number of rows within the radius.
    """
    if not len(codes) or not len(query):
        return [_nothing() for _ in query]
    codes = np.ascontiguousarray(codes)
    if limit is None:
        return _shared(lambda part: _within(part, codes, radius), query, threads=threads)
    return _shared(
        lambda part: [_first_within(one[None], codes, radius, limit) for one in part], query, threads=threads
    )


def _first_within(query: NDArray[np.uint8], codes: NDArray[np.uint8], radius: int, limit: int) -> Found:
    """Search step by step; once there are enough rows, later ones must be nearer than the last of them."""
    rows, distances = _nothing()
    for start in range(0, len(codes), _STEP_WITHIN):
        ((found, near),) = _within(query, codes[start : start + _STEP_WITHIN], radius)
        if not len(found):
            continue
        rows, distances = in_order(np.concatenate([rows, start + found]), np.concatenate([distances, near]))
        rows, distances = rows[:limit], distances[:limit]
        if len(rows) == limit:
            radius = int(distances[-1]) - 1
            if radius < 0:
                break
    return rows, distances


def _within(query: NDArray[np.uint8], codes: NDArray[np.uint8], radius: int) -> list[Found]:
    query = np.ascontiguousarray(query)
    (count, width), result = query.shape, faiss.RangeSearchResult(len(query))
    pointers = faiss.swig_ptr(query), faiss.swig_ptr(codes)
    with use_threads(1):
        # FAISS's radius is exclusive.
        faiss.hamming_range_search(  # type: ignore[attr-defined]
            *pointers, count, len(codes), radius + 1, width, result
        )
    ends = faiss.rev_swig_ptr(result.lims, count + 1).astype(np.int64)
    rows = faiss.rev_swig_ptr(result.labels, int(ends[-1])).copy()  # the result owns the memory
    distances = faiss.rev_swig_ptr(result.distances, int(ends[-1])).astype(np.int64)
    return [in_order(rows[a:b], distances[a:b]) for a, b in pairwise(ends)]


def in_order(rows: NDArray[np.int64], distances: NDArray[np.int64]) -> Found:
    """Sort rows by (distance, row)."""
    order = np.lexsort((rows, distances))
    return rows[order], distances[order]


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let FAISS use `count` threads inside the block; the setting is that of the calling thread only."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _nothing() -> Found:
    return np.empty(0, np.int64), np.empty(0, np.int64)
