"""Tables of substrings of codes: for every value of a substring, the rows of the codes that have it there.

A substring is a set of bit positions; all have one length, and no two share a bit. The codes stay where they are: a
table has a row number for each code, sorted by substring, and the place where each value begins. Knows no distance of
whole codes, and no search.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from math import log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WIDEST = 22  # bits of a substring: the places of 2**22 values are 16 MiB
_SAMPLE = 16_384  # codes from which the correlations of bits are computed
_CHUNK = 65_536  # codes whose bits are unpacked at once
_PREPARED_RADII = 7  # radii from 0 whose masks are made with the tables, some 20 ms each, so that no search waits

_HIGH = np.uint64(32)


class Ring(NamedTuple):
    """In each table, the buckets of the values that differ from the query's substring in a certain number of bits.

    Attributes:
        starts: places in all rows of `Tables`, int64 [tables, buckets].
        counts: rows of each bucket, uint32 [tables, buckets].
        totals: rows of all buckets of each table.
    """

    starts: NDArray[np.int64]
    counts: NDArray[np.uint32]
    totals: list[int]


@dataclass(frozen=True, eq=False)
class Tables:
    """The rows of all codes by each substring.

    Attributes:
        columns: bit positions of each substring, ascending, int64 [tables, width].
        starts: where the rows of each value begin within a table, uint32 [tables, 2**width + 1].
        rows: row numbers by (value, row), uint32 [tables, n].
    """

    columns: NDArray[np.int64]
    starts: NDArray[np.uint32]
    rows: NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.rows.nbytes + self.starts.nbytes

    @cached_property
    def _offsets(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each table begins in all starts and in all rows, int64 [tables, 1] each."""
        tables = np.arange(len(self.columns))[:, None]
        return tables * self.starts.shape[1], tables * self.rows.shape[1]

    def ring(self, values: NDArray[np.int64], *, radius: int) -> Ring:
        """The buckets at exactly `radius` bits from a query with the substrings `values`, int64 [tables, 1]."""
        in_starts, in_rows = self._offsets
        places = (masks(self.columns.shape[1], radius) ^ values) + in_starts
        starts = self.starts.take(places)
        counts = self.starts.take(places + 1) - starts
        return Ring(starts + in_rows, counts, counts.sum(axis=1).tolist())

    def gather(self, starts: NDArray[np.int64], counts: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The rows of some buckets of a ring, one bucket after the other."""
        ends = counts.cumsum(dtype=np.int64)
        places = (starts - ends + counts).repeat(counts)
        places += np.arange(len(places))
        rows: NDArray[np.uint32] = self.rows.take(places)
        return rows


def build(codes: NDArray[np.uint8]) -> Tables:
    """Tables of the codes, uint8 [n, bytes], 0 < n < 2**32; no table if all codes of a sample are equal."""
    columns = choose_columns(codes)
    count, width = columns.shape
    for radius in range(_PREPARED_RADII):
        masks(width, radius)
    starts = np.empty((count, (1 << width) + 1), np.uint32)
    rows = np.empty((count, len(codes)), np.uint32)
    firsts = np.arange(starts.shape[1], dtype=np.uint64) << _HIGH
    for table in range(count):
        joined = _sort(codes, columns[table])
        starts[table] = np.searchsorted(joined, firsts)
        rows[table] = joined  # its lower 32 bits
    return Tables(columns, starts, rows)


def choose_columns(codes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Cut the bits into substrings of about log2(n) bits, int64 [tables, width], so that correlated bits are apart.

    Greedy, as Norouzi, Punjani and Fleet (TPAMI 2014, section 5): the substrings take turns, and each takes the bit
    whose largest correlation with the bits it has is least. Bits that are equal in the whole sample tell no codes apart
    and are left out, as are those that remain.
    """
    bits = np.unpackbits(codes[:: max(1, len(codes) // _SAMPLE)], axis=1)
    varying = np.flatnonzero(bits.min(axis=0) != bits.max(axis=0))
    size = max(1.0, log2(len(codes)))
    count = max(round(len(varying) / size), -(-len(varying) // _WIDEST))
    if not count:
        return np.empty((0, 0), np.int64)
    width = min(_WIDEST, int(size), len(varying) // count)
    likeness = np.abs(np.corrcoef(bits[:, varying], rowvar=False)).reshape(len(varying), -1)
    chosen: list[list[int]] = [[] for _ in range(count)]
    worst = np.zeros((count, len(varying)))  # of each substring, each bit's largest correlation with its bits
    for turn in range(count * width):
        one = turn % count
        bit = int(np.argmin(worst[one]))
        worst[:, bit] = np.inf  # taken
        chosen[one].append(int(varying[bit]))
        np.maximum(worst[one], likeness[bit], out=worst[one])
    return np.sort(np.array(chosen), axis=1)


def values_of(codes: NDArray[np.uint8], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Substrings of codes, uint8 [n, bytes], as numbers, int64 [n, tables]; the first column is the highest bit."""
    tables, width = columns.shape
    bits = np.zeros((len(codes), tables, 32), np.uint8)
    bits[:, :, 32 - width :] = np.unpackbits(codes, axis=1).take(columns, axis=1)
    return np.packbits(bits, axis=2).view(">u4")[:, :, 0].astype(np.int64)


@cache
def masks(width: int, radius: int) -> NDArray[np.int64]:
    """All numbers of `width` bits of which `radius` are 1, int64 [binomial(width, radius)], ascending."""
    return np.flatnonzero(np.bitwise_count(np.arange(1 << width, dtype=np.uint32)) == radius)


def _sort(codes: NDArray[np.uint8], columns: NDArray[np.int64]) -> NDArray[np.uint64]:
    """All codes as value << 32 | row, ascending."""
    joined = np.arange(len(codes), dtype=np.uint64)
    for start in range(0, len(codes), _CHUNK):
        values = values_of(codes[start : start + _CHUNK], columns[None])[:, 0]
        joined[start : start + _CHUNK] |= values.astype(np.uint64) << _HIGH
    joined.sort()
    return joined
