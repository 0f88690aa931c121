"""Codes in memory, and exact searches among them: a contiguous base, and a small delta of what changed since.

The order of hits is that of `nsh.core.hamming`, by (distance, key). A version is immutable: another version shares the
base and has a mask of the base's rows that still count, and a delta of its own. Knows no id and no file.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import first_bits
from nsh.serving.index.exact import Found, in_order, nearest
from nsh.serving.index.multi_index import MultiIndex

SPARSE = 8
"""A selection of fewer rows than one in this many is copied; a larger one is a mask over the base."""

_SPARE, _MOST = 16, 512  # more rows than wanted, asked of a base some of whose rows do not count
_STEP = 1 << 18  # rows of the base that a scan of a mask copies at once


@dataclass(frozen=True, eq=False)
class Part:
    """Contiguous rows: codes uint8 [n, bytes], and their keys int64 [n], ascending."""

    codes: NDArray[np.uint8]
    keys: NDArray[np.int64]
    _nested: dict[int, "Part"] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)

    def first(self, bits: int) -> "Part":
        """The same rows with the first `bits` bits of each code: a copy, made once, with tables of its own."""
        if bits not in self._nested:  # two threads may make it; both are right
            self._nested[bits] = Part(first_bits(self.codes, bits=bits), self.keys)
        return self._nested[bits]

    def ask(self, query: NDArray[np.uint8], *, radius: int | None, limit: int | None, threads: int) -> list[Found]:
        """Rows and distances of the nearest `limit` rows of each query, or of those within `radius`."""
        if radius is None:
            return self._searched.nearest(query, k=len(self) if limit is None else limit, threads=threads)
        return self._searched.within(query, radius=radius, limit=limit, threads=threads)

    @cached_property
    def _searched(self) -> MultiIndex:
        """The codes, with tables if they are searched many times: a base is shared by many versions."""
        return MultiIndex(self.codes)

    def take(self, chosen: NDArray[np.bool_]) -> "Part":
        """A copy of some rows, given as a mask bool [n]."""
        return Part(self.codes[chosen], self.keys[chosen])

    def find(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The row of each key, int64 [k], and whether there is one, bool [k]."""
        rows = np.searchsorted(self.keys, keys)
        there = rows < len(self)
        there[there] = self.keys[rows[there]] == keys[there]
        return rows, there


def join(*parts: Part) -> Part:
    """All rows of some parts, in the order of their keys."""
    keys = np.concatenate([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")
    return Part(np.concatenate([part.codes for part in parts])[order], keys[order])


def no_rows(width: int) -> Part:
    """No rows, of `width` bytes each."""
    return Part(np.empty((0, width), np.uint8), np.empty(0, np.int64))


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one version, or a selection of them."""

    base: Part
    alive: NDArray[np.bool_] | None  # bool [base rows]: which of them count; None: all
    delta: Part

    @cached_property
    def _alive_count(self) -> int:
        return len(self.base) if self.alive is None else int(np.count_nonzero(self.alive))

    def __len__(self) -> int:
        return self._alive_count + len(self.delta)

    def find_codes(self, keys: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """A copy of the codes of keys int64 [k], uint8 [k, bytes]; None if a key is not among the rows."""
        codes, missing = np.empty((len(keys), self.delta.codes.shape[1]), np.uint8), np.ones(len(keys), np.bool_)
        for part, alive in ((self.base, self.alive), (self.delta, None)):
            rows, there = part.find(keys)
            if alive is not None:
                there[there] = alive[rows[there]]
            codes[there] = part.codes[rows[there]]
            missing &= ~there
        return None if missing.any() else codes

    def search(self, query: NDArray[np.uint8], *, radius: int | None, limit: int | None, threads: int) -> list[Found]:
        """Keys and distances of the nearest rows, in the order of (distance, key).

        Args:
            query: uint8 [q, bytes].
            radius: bits; None: any distance.
            limit: rows for each query; None: all.
            threads: threads for several queries; one query has one.
        """
        old = self._search_base(query, radius=radius, limit=limit, threads=threads)
        new = self.delta.ask(query, radius=radius, limit=limit, threads=threads)
        return [
            _merge((self.base.keys[rows], near), (self.delta.keys[fresh], close), limit=limit)
            for (rows, near), (fresh, close) in zip(old, new, strict=True)
        ]

    def select(self, of_base: NDArray[np.bool_], of_delta: NDArray[np.bool_]) -> Self:
        """The rows that count and are in the masks bool [base rows] and bool [delta rows]."""
        alive = of_base if self.alive is None else of_base & self.alive
        delta = self.delta.take(of_delta)
        if SPARSE * np.count_nonzero(alive) >= len(self.base):
            return type(self)(self.base, alive, delta)
        return type(self)(join(self.base.take(alive), delta), None, no_rows(delta.codes.shape[1]))

    def _search_base(
        self, query: NDArray[np.uint8], *, radius: int | None, limit: int | None, threads: int
    ) -> list[Found]:
        """Rows of the base that count: more are asked for than wanted, and those that do not count are left out."""
        if self.alive is None:
            return self.base.ask(query, radius=radius, limit=limit, threads=threads)
        if not (count := self._alive_count):
            return [_nothing() for _ in query]
        more = min(_SPARE + 2 * (limit or 0) * (len(self.base) - count) // count, _MOST)
        asked = None if limit is None else limit + more
        found = self.base.ask(query, radius=radius, limit=asked, threads=threads)
        kept = [(rows[self.alive[rows]], distances[self.alive[rows]]) for rows, distances in found]
        for row, (rows, _) in enumerate(found):
            if limit is not None and len(kept[row][0]) < limit <= len(rows) - more and len(rows) < len(self.base):
                kept[row] = self._scan(query[row : row + 1], radius=radius, limit=limit)
        return kept

    def _scan(self, query: NDArray[np.uint8], *, radius: int | None, limit: int) -> Found:
        """As `_search_base` for one query uint8 [1, bytes], by comparing it with every row that counts."""
        assert self.alive is not None
        best = _nothing()
        for start in range(0, len(self.base), _STEP):
            rows = start + np.flatnonzero(self.alive[start : start + _STEP])
            ((found, distances),) = nearest(query, self.base.codes[rows], k=limit)
            best = _merge(best, (rows[found], distances), limit=limit)
        count = len(best[1]) if radius is None else np.searchsorted(best[1], radius, side="right")
        return best[0][:count], best[1][:count]


def _merge(one: Found, other: Found, *, limit: int | None) -> Found:
    """The first `limit` of two results, by (distance, key or row)."""
    if not len(other[0]):
        return one[0][:limit], one[1][:limit]
    merged, distances = in_order(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]))
    return merged[:limit], distances[:limit]


def _nothing() -> Found:
    return np.empty(0, np.int64), np.empty(0, np.int64)
