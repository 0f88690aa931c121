"""Exact Hamming search that looks at few codes: multi-index hashing where it pays, the scan of `exact` elsewhere.

Norouzi, Punjani, Fleet, "Fast Exact Search in Hamming Space with Multi-Index Hashing", TPAMI 2014. Tables list the
codes by substring (`substrings`). A search looks at the rows whose substrings are near the query's, and proves that no
other row belongs to the answer (`proof`). Where the proof would cost as much as a scan, the scan answers. Results and
their order are those of `exact`, always. Knows no id, version or file.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nsh.serving.index import exact, proof
from nsh.serving.index.exact import Found
from nsh.serving.index.substrings import Tables, build, values_of

_LEAST_ROWS = 1 << 19  # a scan of fewer takes no longer than a proof's calls of numpy
_SCANS = 300  # scans take as long as making the tables

Proof = Callable[..., proof.Search]
Scan = Callable[[NDArray[np.uint8], NDArray[np.uint8]], list[Found]]


class MultiIndex:
    """Packed codes that are searched many times. Threads may share it.

    A background thread makes the tables once the scans here have taken as long as that will take: a process that
    searches a few times never pays for tables, and one that goes on pays at most twice what was needed. Until they are
    ready, and if there is no memory for them, the scan answers.

    Attributes:
        codes: uint8 [n, bytes], contiguous, n < 2**32; nobody changes them.
        proved: queries answered by the tables.
        scanned: queries answered by the scan.
    """

    def __init__(self, codes: NDArray[np.uint8]) -> None:
        """Keep the codes; make no tables yet."""
        self.codes, self.proved, self.scanned = codes, 0, 0
        self._tables: Tables | None = None
        self._preparing: threading.Thread | None = None
        self._counting = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Memory of the tables in bytes, 0 before they are ready."""
        return self._tables.nbytes if self._tables else 0

    def prepare(self) -> None:
        """Make the tables now: 0.5 s for a million codes of 64 bits, with 8 bytes more for each code meanwhile."""
        self._tables = build(self.codes)

    def nearest(self, query: NDArray[np.uint8], *, k: int, threads: int = 1) -> list[Found]:
        """The min(k, n) nearest rows for each query (uint8 [q, bytes]), k >= 1, as `exact.nearest`.

        Args:
            query: packed codes of the same length.
            k: at least 1.
            threads: threads that the scan for several queries may use.
        """
        prove = partial(proof.Search, k=min(k, len(self.codes)), radius=8 * query.shape[1])
        return self._search(query, prove, partial(exact.nearest, k=k, threads=threads))

    def within(
        self, query: NDArray[np.uint8], *, radius: int, limit: int | None = None, threads: int = 1
    ) -> list[Found]:
        """The rows at a distance <= `radius` (inclusive, >= 0) of each query, as `exact.within`; see `nearest`.

        With a `limit` >= 1, the first of them.
        """
        prove = partial(proof.Search, k=limit, radius=radius)
        return self._search(query, prove, partial(exact.within, radius=radius, limit=limit, threads=threads))

    def _search(self, query: NDArray[np.uint8], prove: Proof, scan: Scan) -> list[Found]:
        """Prove the answers that can be proved; answer all other queries in one scan."""
        proved = self._prove(query, prove)
        left = [place for place, answer in enumerate(proved) if answer is None]
        self._count(proved=len(query) - len(left), scanned=len(left))
        scanned = iter(scan(query[left], self.codes) if left else ())
        return [next(scanned) if answer is None else answer for answer in proved]

    def _prove(self, query: NDArray[np.uint8], prove: Proof) -> list[Found | None]:
        """The answer of each query that the tables prove complete at less than the cost of a scan, otherwise None."""
        tables = self._tables  # another thread may set them meanwhile
        if tables is None or not len(tables.columns) or len(self.codes) < _LEAST_ROWS:
            return [None] * len(query)
        words, queries = proof.to_words(self.codes), proof.to_words(np.ascontiguousarray(query))
        values = values_of(query, tables.columns)
        return [prove(tables, words, one, values=values[row]).answer() for row, one in enumerate(queries)]

    def _count(self, *, proved: int, scanned: int) -> None:
        """Count answers; begin to make the tables if there were enough scans."""
        with self._counting:
            self.proved += proved
            self.scanned += scanned
            due = self.scanned >= _SCANS and len(self.codes) >= _LEAST_ROWS
            if due and self._tables is None and self._preparing is None:
                self._preparing = threading.Thread(target=self._prepare_quietly, name="tables", daemon=True)
                self._preparing.start()

    def _prepare_quietly(self) -> None:
        with suppress(MemoryError):
            self.prepare()
