"""One version of an index, opened: searches in its codes, and look-ups of its ids and metadata.

The codes are in memory and do not change. Ids and metadata are in the database, which has only the newest version: a
look-up in a block that was changed since raises `Superseded`, and the caller asks a newer snapshot. Threads may share
a snapshot.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import check_codes, code_bytes, first_bits
from nsh.core.reranking import rerank, shortlist_length
from nsh.errors import CodesError, UnknownItem
from nsh.serving.index import blocks, items, schema
from nsh.serving.index.checks import whole
from nsh.serving.index.database import Database
from nsh.serving.index.engine import Filter, Hit, ScoredHit, codes_of_logits, filtered_column
from nsh.serving.index.exact import Found
from nsh.serving.index.loaded import Loaded
from nsh.serving.index.rows import Rows
from nsh.serving.index.selection import Selections, Superseded, check_unchanged, column_is, id_begins

_FILTERS_KEPT = 4


@dataclass(eq=False)
class Snapshot:
    """An opened version. Methods that read the database raise `Superseded` once what they need was changed."""

    database: Database
    settings: schema.Settings
    loaded: Loaded
    selections: Selections
    threads: int  # threads that a search of several codes may use
    _selected: dict[Filter, Rows] = field(default_factory=dict)
    _nested: dict[int, "Snapshot"] = field(default_factory=dict)

    @property
    def bits(self) -> int:
        """Bits of every code."""
        return self.settings.bits

    @property
    def version(self) -> int:
        """The number of the version."""
        return self.settings.version

    def __len__(self) -> int:
        return self.settings.items

    def search(
        self, codes: NDArray[np.uint8], *, k: int, where: Filter | None = None, bits: int | None = None
    ) -> list[list[Hit]]:
        """As `Index.search`."""
        k, nested = whole("k", k, least=1), self._first(bits)
        query = self._cut(codes, bits=nested.bits)
        return nested._hits(nested.select(where).search(query, radius=None, limit=k, threads=self.threads))

    def search_radius(
        self,
        codes: NDArray[np.uint8],
        *,
        radius: int,
        where: Filter | None = None,
        limit: int | None = None,
        bits: int | None = None,
    ) -> list[list[Hit]]:
        """As `Index.search_radius`."""
        nested = self._first(bits)
        radius = min(whole("radius", radius, least=0), nested.bits)
        limit = None if limit is None else whole("limit", limit, least=1)
        query = self._cut(codes, bits=nested.bits)
        return nested._hits(nested.select(where).search(query, radius=radius, limit=limit, threads=self.threads))

    def search_reranked(
        self,
        logits: NDArray[np.floating[Any]],
        *,
        k: int,
        radius: int | None = None,
        where: Filter | None = None,
        bits: int | None = None,
    ) -> list[list[ScoredHit]]:
        """As `Index.search_reranked`."""
        k, nested, codes = whole("k", k, least=1), self._first(bits), codes_of_logits(logits, bits=self.bits)
        radius = None if radius is None else min(whole("radius", radius, least=0), nested.bits)
        query, rows, limit = first_bits(codes, bits=nested.bits), nested.select(where), shortlist_length(k)
        found = rows.search(query, radius=radius, limit=limit, threads=self.threads)
        return nested._best(found, logits[:, : nested.bits], k=k)

    def _cut(self, codes: NDArray[np.uint8], *, bits: int) -> NDArray[np.uint8]:
        """The first `bits` bits of queries, which must be whole codes."""
        check_codes(codes, bits=self.bits)
        return first_bits(codes, bits=bits)

    def _first(self, bits: int | None) -> "Snapshot":
        """The same version, as if its codes had only their first `bits` bits; None: with all of them.

        Raises:
            CodesError: `bits` is less than 1, or more than they have.
        """
        if bits is None or whole("bits", bits, least=1) == self.bits:
            return self
        if bits > self.bits:
            raise CodesError(f"found bits = {bits}: the index has codes of {self.bits} bits")
        if bits not in self._nested:  # two threads may make it; both are right
            settings, loaded = self.settings._replace(bits=bits), self.loaded.first(bits)
            self._nested[bits] = Snapshot(self.database, settings, loaded, self.selections, self.threads)
        return self._nested[bits]

    def _best(self, shortlists: Sequence[Found], logits: NDArray[np.floating[Any]], *, k: int) -> list[list[ScoredHit]]:
        """The k best of each query's shortlist."""
        best, scores = list[Found](), list[list[float]]()
        for (keys, distances), query in zip(shortlists, logits, strict=True):
            places, falling = rerank(query, self._codes_of(keys))
            best.append((keys[places[:k]], distances[places[:k]]))
            scores.append(falling[:k].tolist())
        return [
            [ScoredHit(hit.id, hit.distance, score, hit.metadata) for hit, score in zip(*found, strict=True)]
            for found in zip(self._hits(best), scores, strict=True)
        ]

    def code_of(self, id: str) -> NDArray[np.uint8]:
        """As `Index.code_of`."""
        with self.database.reading() as connection:
            found = items.by_id(connection, [id])
            if not found:
                self._check_newest(connection)
                raise UnknownItem(f"the index has no item {id!r}: look at its ids, they are those of `nsh encode`")
            self._check_unchanged(connection, [found[id].key])
        code: NDArray[np.uint8] = self._codes_of(np.array([found[id].key]))[0]
        return code

    def sample(self, count: int, *, seed: int) -> tuple[list[str], NDArray[np.uint8]]:
        """As `Index.sample`."""
        base, alive, delta = self.loaded.rows.base, self.loaded.rows.alive, self.loaded.rows.delta
        keys = np.concatenate([base.keys if alive is None else base.keys[alive], delta.keys])
        drawn = np.sort(np.random.default_rng(seed).choice(keys, min(count, len(keys)), replace=False))
        with self.database.reading() as connection:
            self._check_unchanged(connection, drawn.tolist())
            found = items.by_key(connection, drawn.tolist())
        return [found[key].id for key in drawn.tolist()], self._codes_of(drawn)

    def columns(self) -> list[str]:
        """The names of the metadata columns."""
        with self.database.reading() as connection:
            self._check_newest(connection)
            return items.columns(connection)

    def select(self, where: Filter | None) -> Rows:
        """The rows that match the filter.

        Raises:
            CodesError: a column without a value or the reverse, or no item has the column.
        """
        if where is None or where == Filter():
            return self.loaded.rows
        rows = self._selected.get(where)
        if rows is None:
            rows = self._select(where)
            if len(self._selected) >= _FILTERS_KEPT:
                self._selected.clear()
            self._selected[where] = rows
        return rows

    def _select(self, where: Filter) -> Rows:
        rows, conditions = self.loaded.rows, []
        by_metadata = where.column is not None or where.value is not None
        if pair := filtered_column(where, self.columns() if by_metadata else ()):
            conditions.append(column_is(*pair))
        if where.id_prefix:
            conditions.append(id_begins(where.id_prefix))
        for condition in conditions:
            arrays = rows.base.keys, rows.delta.keys
            rows = rows.select(*self.selections.match(condition, *arrays, versions=self.loaded.versions))
        return rows

    def _check_newest(self, connection: sqlite3.Connection) -> None:
        if schema.read_version(connection) != self.version:
            raise Superseded

    def _check_unchanged(self, connection: sqlite3.Connection, keys: Sequence[int]) -> None:
        """Make sure that items are as they were in this version."""
        numbers = {blocks.number_of(key) for key in keys}
        if not numbers <= self.loaded.versions.keys():
            raise Superseded
        check_unchanged(connection, {number: self.loaded.versions[number] for number in numbers})

    def _codes_of(self, keys: NDArray[np.int64]) -> NDArray[np.uint8]:
        """A copy of the codes of items, uint8 [n, bytes]."""
        codes = self.loaded.rows.find_codes(keys)
        if codes is None:
            raise sqlite3.DatabaseError("a code is missing")
        return codes

    def _hits(self, found: Sequence[Found]) -> list[list[Hit]]:
        """The hits: ids and metadata of the found keys."""
        pairs = [(keys.tolist(), distances.tolist()) for keys, distances in found]
        wanted = list({key for keys, _ in pairs for key in keys})
        with self.database.reading() as connection:
            self._check_unchanged(connection, wanted)
            described = items.by_key(connection, wanted)
        return [
            [
                Hit(described[key].id, distance, dict(described[key].metadata))
                for key, distance in zip(keys, distances, strict=True)
            ]
            for keys, distances in pairs
        ]

    def newer(self) -> Self:
        """The newest version; this one if there is no newer.

        Raises:
            IndexUnusable: the index can no longer be read.
        """
        width = code_bytes(self.bits)
        with self.database.reading() as connection:
            if schema.read_version(connection) == self.version:
                return self
            settings = schema.read_settings(connection, self.database.folder)
            changed = list(blocks.read_changed(connection, since=self.version, width=width))
            loaded = self.loaded.after(changed, items=settings.items)
        return type(self)(self.database, settings, loaded, self.selections, self.threads)


def open_snapshot(database: Database, *, threads: int) -> Snapshot:
    """Open the newest version.

    Raises:
        IndexUnusable: the index is damaged, cannot be read, or is another version's of this project.
    """
    with database.reading() as connection:
        settings = schema.read_settings(connection, database.folder)
        width = code_bytes(settings.bits)
        read = blocks.read_changed(connection, since=-1, width=width)
        loaded = Loaded.read(read, items=settings.items, width=width)
    return Snapshot(database, settings, loaded, Selections(database), threads)
