"""Exact Hamming distances, top-k and ranges over packed codes.

Codes are uint8 [n, bytes] as from `nsh.core.codes.pack`; padding bits are zero and do not change distances. Queries are
processed block by block, so memory does not grow with their number. Knows nothing of labels, indexes or files.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import MAX_BITS
from nsh.core.ordering import smallest
from nsh.errors import CodesError

_PAIRS_PER_BLOCK = 1 << 22  # 4 Mi distances at once: tens of megabytes, and little Python per distance


def distances(query: NDArray[np.uint8], gallery: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """All Hamming distances uint16 [q, g] in bits; use `rank` or `within` for large g.

    Raises:
        CodesError: the two are not packed codes of one length.

    Examples:
        >>> query = np.array([[0b1111_0000]], np.uint8)
        >>> distances(query, gallery=np.array([[0b1111_0000], [0b1100_0001]], np.uint8))
        array([[0, 3]], dtype=uint16)
    """
    _check_pair(query, gallery)
    table = np.empty((len(query), len(gallery)), dtype=np.uint16)
    fill_distances(to_words(query), to_words(gallery), out=table)
    return table


def rank(
    query: NDArray[np.uint8], gallery: NDArray[np.uint8], *, k: int
) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """The k nearest gallery rows of each query, ordered by (distance, gallery row).

    Returns:
        rows int64 and distances uint16, both [q, min(k, g)].

    Raises:
        CodesError: the two are not packed codes of one length, or k < 1.

    Examples:
        >>> rank(np.array([[0b000]], np.uint8), np.array([[0b111], [0b000], [0b001]], np.uint8), k=2)
        (array([[1, 2]]), array([[0, 1]], dtype=uint16))
    """
    _check_pair(query, gallery)
    if k < 1:
        raise CodesError(f"cannot rank k = {k} codes: choose k of at least 1")
    width = min(k, len(gallery))
    rows = np.empty((len(query), width), dtype=np.int64)
    nearest = np.empty((len(query), width), dtype=np.uint16)
    gallery_words = to_words(gallery)
    for block in query_blocks(len(query), len(gallery)):
        table = np.empty((block.stop - block.start, len(gallery)), dtype=np.uint16)
        fill_distances(to_words(query[block]), gallery_words, out=table)
        rows[block], nearest[block] = smallest(table.astype(np.uint32), k=width)
    return rows, nearest


def within(
    query: NDArray[np.uint8], gallery: NDArray[np.uint8], *, radius: int
) -> list[tuple[NDArray[np.int64], NDArray[np.uint16]]]:
    """All gallery rows at a distance <= `radius` (inclusive; 0 finds equal codes), for each query.

    Returns:
        One pair a query: rows int64 [found] and distances uint16 [found], ordered by (distance, gallery row).

    Raises:
        CodesError: the two are not packed codes of one length, or radius < 0.

    Examples:
        >>> within(np.array([[0b000]], np.uint8), np.array([[0b111], [0b000], [0b001]], np.uint8), radius=1)
        [(array([1, 2]), array([0, 1], dtype=uint16))]
    """
    _check_pair(query, gallery)
    if radius < 0:
        raise CodesError(f"cannot search within a radius of {radius}: choose 0 or more")
    gallery_words = to_words(gallery)
    found = []
    for row in range(len(query)):
        nearby = np.empty((1, len(gallery)), dtype=np.uint16)
        fill_distances(to_words(query[row : row + 1]), gallery_words, out=nearby)
        rows = np.flatnonzero(nearby[0] <= radius)
        rows = rows[np.argsort(nearby[0, rows], kind="stable")]
        found.append((rows, nearby[0, rows]))
    return found


def to_words(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Convert codes uint8 [n, bytes] to uint64 [ceil(bytes / 8), n], padded with zeros, for `fill_distances`.

    Examples:
        >>> to_words(np.zeros((5, 12), np.uint8)).shape  # 12 bytes are two words
        (2, 5)
    """
    count, width = codes.shape
    words = -(-width // 8)
    padded = np.zeros((count, 8 * words), dtype=np.uint8)
    padded[:, :width] = codes
    return np.ascontiguousarray(padded.view(np.uint64).T)


def fill_distances(
    query: NDArray[np.uint64], gallery: NDArray[np.uint64], *, out: NDArray[np.uint8] | NDArray[np.uint16]
) -> None:
    """Write the distances of words [w, q] and [w, g] into `out` [q, g] (uint8 holds codes of up to 255 bits).

    Examples:
        >>> query, gallery = np.array([[0b00]], np.uint8), np.array([[0b01], [0b11]], np.uint8)
        >>> table = np.empty((1, 2), np.uint8)
        >>> fill_distances(to_words(query), to_words(gallery), out=table)
        >>> table
        array([[1, 2]], dtype=uint8)
    """
    differing = np.empty(gallery.shape[1], dtype=np.uint64)  # one query at a time fits into the processor's cache
    for row in range(query.shape[1]):
        np.bitwise_xor(query[0, row], gallery[0], out=differing)
        np.bitwise_count(differing, out=out[row])
        for word in range(1, len(query)):
            np.bitwise_xor(query[word, row], gallery[word], out=differing)
            out[row] += np.bitwise_count(differing)


def query_blocks(queries: int, gallery: int) -> Iterator[slice]:
    """Cut `queries` into slices of bounded work; the slices depend on the two counts alone, not on threads.

    Examples:
        >>> list(query_blocks(5, 2_000_000))
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    rows = max(1, min(256, _PAIRS_PER_BLOCK // max(1, gallery)))
    for start in range(0, queries, rows):
        yield slice(start, min(start + rows, queries))


def _check_pair(query: NDArray[np.uint8], gallery: NDArray[np.uint8]) -> None:
    for name, codes in (("query", query), ("gallery", gallery)):
        if codes.dtype != np.uint8 or codes.ndim != 2 or not 1 <= codes.shape[1] <= MAX_BITS // 8:
            raise CodesError(
                f"{name} codes must be a uint8 array [n, 1 to {MAX_BITS // 8}], found {codes.dtype} {list(codes.shape)}"
            )
    if query.shape[1] != gallery.shape[1]:
        raise CodesError(
            f"query codes have {query.shape[1]} bytes and gallery codes {gallery.shape[1]}: "
            "encode both with the same encoder"
        )
