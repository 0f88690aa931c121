"""A search of `multi_index` for one query, and the proof that its answer is complete.

If all rows within r_i bits of the query in substring i have been looked at, for every i, each other row differs in
r_i + 1 bits or more of every substring, so that its distance is the sum of these or more: the reach. The r_i may differ
(Qin et al., "GPH: Similarity Search in Hamming Space", ICDE 2018): the substring grows next that has the fewest rows
there. Once the reach is above the k-th distance found, or above the radius, the answer is complete. The unit of costs
is one row of a scan.
"""

from math import comb, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.serving.index.exact import Found
from nsh.serving.index.substrings import Ring, Tables

_ROW_COST, _LOOKUP_COST = 20, 5  # of looking at a row anywhere, and of looking up where a substring's rows begin
_TRIAL = 0.2  # share of a scan's cost that may be lost: spent before the proof is known to cost less than the scan
_LEAST_BATCH = 20_000  # what the calls of numpy cost in any case

_SHIFT, _ROW = np.int64(32), np.int64(0xFFFFFFFF)


def to_words(codes: NDArray[np.uint8]) -> NDArray[Any]:
    """Codes uint8 [n, bytes] as the widest unsigned integers that a code is made of, without a copy.

    Examples:
        >>> to_words(np.zeros((5, 12), np.uint8)).shape  # 12 bytes are three words of 4
        (5, 3)
    """
    width = next(size for size in (8, 4, 2, 1) if codes.shape[1] % size == 0)
    return codes.view(f"u{width}")


class Search:
    """The search for one query, and what it has looked at."""

    def __init__(
        self,
        tables: Tables,
        words: NDArray[Any],
        query: NDArray[Any],
        *,
        values: NDArray[np.int64],
        k: int | None,
        radius: int,
    ) -> None:
        """Look at nothing yet.

        Args:
            tables: of the codes.
            words: all codes, unsigned integers [n, words].
            query: unsigned integers [words].
            values: the query's substrings, int64 [tables].
            k: how many rows are wanted; None: all.
            radius: bits; no row farther away is wanted.
        """
        self._tables, self._words, self._query, self._values = tables, words, query, values[:, None]
        self._k, self._bound = k, radius  # rows farther than the bound do not belong to the answer
        self._best = np.empty(0, np.int64)  # distance << 32 | row of the rows found, ascending
        self._reach = 0  # rows not looked at are at least this far
        self._spent = 0.0
        self._rings = list[Ring]()
        self._radii = [0] * len(values)  # of each table, the next to be planned
        self._planned, self._price = list[tuple[int, int]](), 0  # radius and table; what looking at them costs

    def answer(self) -> Found | None:
        """The wanted rows and their distances, by (distance, row); None if a scan is cheaper."""
        return (self._best & _ROW, self._best >> _SHIFT) if self._explore() or self._finish() else None

    def _explore(self) -> bool:
        """Look at twice as many rows in each turn, while it is a trial; whether the answer is complete."""
        while self._reach <= self._bound:
            self._plan(max(_LEAST_BATCH, self._spent))
            if not self._planned or self._spent + self._price > _TRIAL * len(self._words) / 2:
                return False
            self._look()
        return True

    def _finish(self) -> bool:
        """Look at all that completes the answer, unless a scan costs less; whether the answer is complete."""
        if self._bound >= 8 * self._query.nbytes:  # fewer than k rows are found: nothing says how far to look
            return False
        self._plan(len(self._words) - self._spent)
        if self._reach + len(self._planned) <= self._bound or self._spent + self._price > len(self._words):
            return False
        self._look()
        return True

    def _plan(self, limit: float) -> None:
        """Let radii grow where it is cheapest, until the answer is complete or the plan costs `limit`."""
        while self._price < limit and self._reach + len(self._planned) <= self._bound:
            cost, table = min((self._cost(table), table) for table in range(len(self._radii)))
            radius = self._radii[table]
            if radius < len(self._rings):
                self._planned.append((radius, table))
                self._radii[table] += 1
                self._price += int(cost)
            elif not self._look_up(radius):
                return

    def _cost(self, table: int) -> float:
        """What a table's next radius costs; before it is looked up, no less than the former one and the look-up."""
        radius, rings = self._radii[table], self._rings
        if radius < len(rings):
            return _ROW_COST * rings[radius].totals[table]
        return self._lookup_cost(radius) + (_ROW_COST * rings[-1].totals[table] if rings else 0)

    def _lookup_cost(self, radius: int) -> float:
        width = self._tables.columns.shape[1]
        return _LOOKUP_COST * len(self._radii) * comb(width, radius) if radius <= width else inf

    def _look_up(self, radius: int) -> bool:
        """Look up the rows of a radius in all tables, unless there are none or it costs more than may be lost."""
        cost = self._lookup_cost(radius)
        if self._spent + cost > _TRIAL * len(self._words):
            return False
        self._spent += cost
        self._rings.append(self._tables.ring(self._values, radius=radius))
        return True

    def _look(self) -> None:
        """Look at the rows that are planned."""
        if self._planned:
            starts = [self._rings[radius].starts[table] for radius, table in self._planned]
            counts = [self._rings[radius].counts[table] for radius, table in self._planned]
            self._merge(self._tables.gather(np.concatenate(starts), np.concatenate(counts)))
        self._spent += self._price
        self._reach += len(self._planned)
        self._planned, self._price = [], 0

    def _merge(self, rows: NDArray[np.uint32]) -> None:
        """Merge rows, each of them once or several times, into the best."""
        differing = np.bitwise_count(self._words.take(rows, axis=0) ^ self._query)
        distances = differing[:, 0] if differing.shape[1] == 1 else differing.sum(axis=1, dtype=np.uint16)
        bound = self._bound
        if self._k is not None and len(rows) > (most := len(self._radii) * self._k):
            # A row is at most once in each table, so that k different ones are among these.
            bound = min(bound, int(np.partition(distances, most - 1)[most - 1]))
        (near,) = (distances <= bound).nonzero()
        found = distances[near].astype(np.int64) << _SHIFT | rows[near]
        joined = np.concatenate([self._best, found])
        joined.sort()
        fresh = np.ones(len(joined), bool)
        np.not_equal(joined[1:], joined[:-1], out=fresh[1:])
        self._best = joined[fresh][: self._k]
        if len(self._best) == self._k:
            self._bound = min(self._bound, int(self._best[-1] >> _SHIFT))
