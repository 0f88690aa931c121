"""One version of an index: its codes, mapped from its files, and searches in them.

The codes do not change while others write. Ids and metadata are in the database, which has only the newest version: a
look-up for an older version raises `Superseded`, and the caller asks a newer snapshot. Threads may share a snapshot.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import binarize, check_codes, code_bytes, pack
from nsh.core.reranking import rerank, shortlist_length
from nsh.errors import CodesError, UnknownItem
from nsh.serving.index import snapshot_files, sqlite
from nsh.serving.index.checks import whole
from nsh.serving.index.exact import Found, nearest, within
from nsh.serving.index.refusals import damaged

_ATTEMPTS = 3  # each fails only if two versions were written between two statements
_FILTERS_KEPT = 8


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Restricts a search to items whose id begins with `id_prefix`, and whose metadata `column` has the `value`."""

    id_prefix: str | None = None
    column: str | None = None
    value: str | None = None


class Hit(NamedTuple):
    """One item found: its id, its distance in bits, and the values of its metadata columns."""

    id: str
    distance: int  # bits
    metadata: dict[str, str]


class ScoredHit(NamedTuple):
    """A hit of a re-ranked search, with its score: the higher, the nearer (`nsh.core.reranking`)."""

    id: str
    distance: int  # bits
    score: float  # in the unit of the query's logits
    metadata: dict[str, str]


@dataclass(eq=False)
class Snapshot:
    """An opened version. Methods that read the database raise `sqlite.Superseded` once there is a newer version."""

    database: sqlite.Database
    settings: dict[str, str]
    version: sqlite.Version
    rows: snapshot_files.Rows
    lists: Any  # the approximate backend, or None
    threads: int  # threads that a search of several codes may use
    _selected: dict[Filter, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def bits(self) -> int:
        """Bits of every code."""
        return int(self.settings["bits"])

    def search(self, codes: NDArray[np.uint8], *, k: int, where: Filter | None = None) -> list[list[Hit]]:
        """As `Index.search`."""
        k = whole("k", k, least=1)
        check_codes(codes, bits=self.bits)
        rows = self.select(where)
        exact = rows is not None or self.lists is None
        return self._hits(self._nearest(codes, k=k, rows=rows) if exact else self._approximate(codes, k=k))

    def search_radius(
        self, codes: NDArray[np.uint8], *, radius: int, where: Filter | None = None, limit: int | None = None
    ) -> list[list[Hit]]:
        """As `Index.search_radius`."""
        radius = min(whole("radius", radius, least=0), self.bits)
        limit = None if limit is None else whole("limit", limit, least=1)
        check_codes(codes, bits=self.bits)
        found = self._within(codes, radius=radius, rows=self.select(where))
        return self._hits((keys[:limit], distances[:limit]) for keys, distances in found)

    def search_reranked(
        self, logits: NDArray[np.floating[Any]], *, k: int, radius: int | None = None, where: Filter | None = None
    ) -> list[list[ScoredHit]]:
        """As `Index.search_reranked`."""
        k, codes, rows = whole("k", k, least=1), pack(binarize(logits)), self.select(where)
        if logits.shape[1] != self.bits:
            raise CodesError(
                f"found {logits.shape[1]} logits a query, the codes have {self.bits} bits: use one encoder"
            )
        length = shortlist_length(k)
        if radius is None:
            found = self._nearest(codes, k=length, rows=rows)
        else:
            found = self._within(codes, radius=min(whole("radius", radius, least=0), self.bits), rows=rows)
        return self._best([(keys[:length], distances[:length]) for keys, distances in found], logits, k=k)

    def _best(self, shortlists: Iterable[Found], logits: NDArray[np.floating[Any]], *, k: int) -> list[list[ScoredHit]]:
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
        with self._reading() as connection:
            keys = sqlite.keys_of(connection, [id])
        if not keys:
            raise UnknownItem(f"the index has no item {id!r}: look at its ids, they are those of `nsh encode`")
        code: NDArray[np.uint8] = self._codes_of(np.array([keys[id]]))[0]
        return code

    def columns(self) -> list[str]:
        """The names of the metadata columns."""
        with self._reading() as connection:
            return sqlite.columns(connection)

    def check(self) -> None:
        """Check the whole database, and compare its items with the codes.

        Raises:
            IndexDamaged: a part is not what was written.
        """
        with self._reading() as connection:
            sqlite.check(connection, self.database.folder)
            keys = sqlite.select_keys(connection, id_prefix=None, column=None, value=None)
        if not np.array_equal(keys, self.rows.keys):
            raise damaged(
                self.database.folder, f"{len(keys)} ids and {len(self.rows.keys)} codes do not belong together"
            )

    def select(self, where: Filter | None) -> NDArray[np.int64] | None:
        """The rows that match the filter, ascending; None: all rows.

        Raises:
            CodesError: a column without a value or the reverse, or no item has the column.
        """
        if where is None or where == Filter():
            return None
        rows = self._selected.get(where)
        if rows is None:
            rows = np.searchsorted(self.rows.keys, self._select_keys(where))
            if len(self._selected) >= _FILTERS_KEPT:
                self._selected.clear()
            self._selected[where] = rows
        return rows

    def _select_keys(self, where: Filter) -> NDArray[np.int64]:
        if (where.column is None) != (where.value is None):
            raise CodesError("a filter by metadata needs a column and a value: give both")
        with self._reading() as connection:
            if where.column is not None and where.column not in (known := sqlite.columns(connection)):
                there = f"there are {', '.join(known)}" if known else "no item has metadata"
                raise CodesError(f"no item has the metadata column {where.column!r}: {there}")
            return sqlite.select_keys(connection, id_prefix=where.id_prefix, column=where.column, value=where.value)

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return self.database.reading(self.version.number)

    def _approximate(self, codes: NDArray[np.uint8], *, k: int) -> list[Found]:
        from nsh.serving.index import approximate

        least, probes = min(k, len(self.rows.keys)), int(self.settings["approximate_probes"])
        found = approximate.search(self.lists, codes, k=least, probes=probes, threads=self.threads)
        missing = [row for row, one in enumerate(found) if one is None]
        exact = iter(self._nearest(codes[missing], k=k, rows=None))
        return [next(exact) if one is None else one for one in found]

    def _nearest(self, query: NDArray[np.uint8], *, k: int, rows: NDArray[np.int64] | None) -> list[Found]:
        """Keys and distances of the k nearest of `rows`, by an exact search, in the order of (distance, key)."""
        found = nearest(query, self._codes(rows), k=k, threads=self.threads)
        return [(self._keys(rows, places), distances) for places, distances in found]

    def _within(self, query: NDArray[np.uint8], *, radius: int, rows: NDArray[np.int64] | None) -> list[Found]:
        """Keys and distances of the `rows` within the radius, in the order of (distance, key)."""
        found = within(query, self._codes(rows), radius=radius, threads=self.threads)
        return [(self._keys(rows, places), distances) for places, distances in found]

    def _codes(self, rows: NDArray[np.int64] | None) -> NDArray[np.uint8]:
        return self.rows.codes if rows is None else self.rows.codes[rows]

    def _codes_of(self, keys: NDArray[np.int64]) -> NDArray[np.uint8]:
        """A copy of the codes of existing keys."""
        codes: NDArray[np.uint8] = self.rows.codes[np.searchsorted(self.rows.keys, keys)]
        return codes

    def _keys(self, rows: NDArray[np.int64] | None, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.rows.keys[places if rows is None else rows[places]]

    def _hits(self, found: Iterable[Found]) -> list[list[Hit]]:
        """The hits: ids and metadata of the found keys."""
        found = [(keys.tolist(), distances.tolist()) for keys, distances in found]
        wanted = {key for keys, _ in found for key in keys}
        with self._reading() as connection:
            described = sqlite.describe(connection, list(wanted))
        return [
            [
                Hit(described[key][0], distance, dict(described[key][1]))
                for key, distance in zip(keys, distances, strict=True)
            ]
            for keys, distances in found
        ]


def open_snapshot(database: sqlite.Database, *, threads: int) -> Snapshot:
    """Open the newest complete version.

    Raises:
        IndexUnusable: the index is damaged or cannot be read.
        CodesError: its schema is one that this version does not read.
    """
    for _ in range(_ATTEMPTS):
        with database.reading() as connection:
            settings, version = _settings(connection, database.folder), sqlite.current(connection)
        with suppress(FileNotFoundError):  # two newer versions were written meanwhile
            return _open(database, settings, version, threads=threads)
    with database.reading() as connection:  # no change is committed meanwhile
        settings, version = _settings(connection, database.folder), sqlite.current(connection)
        return _open(database, settings, version, threads=threads)


def _settings(connection: sqlite3.Connection, folder: Path) -> dict[str, str]:
    settings = sqlite.settings(connection)
    schema = settings.get("schema")
    if schema != str(sqlite.SCHEMA):
        raise CodesError(f"{folder} has schema {schema}, this version reads {sqlite.SCHEMA}: build it again")
    if not settings.get("bits", "").isdecimal() or "encoder_identity" not in settings:
        raise damaged(folder, f"{sqlite.FILE} lacks settings")
    return settings


def _open(database: sqlite.Database, settings: dict[str, str], version: sqlite.Version, *, threads: int) -> Snapshot:
    rows = snapshot_files.read(database.folder, version)
    if rows.codes.shape != (version.items, code_bytes(int(settings["bits"]))) or rows.keys.shape != (version.items,):
        raise damaged(database.folder, f"{version.items} items, codes {list(rows.codes.shape)}")
    return Snapshot(database, settings, version, rows, read_lists(database.folder, version), threads)


def read_lists(folder: Path, version: sqlite.Version) -> Any:
    """The approximate backend of a version, or None."""
    if version.lists_sha256 is None:
        return None
    from nsh.serving.index import approximate

    path = snapshot_files.lists_path(folder, version.number)
    snapshot_files.check_file(folder, path, sha256=version.lists_sha256)
    return approximate.from_bytes(np.fromfile(path, np.uint8))
