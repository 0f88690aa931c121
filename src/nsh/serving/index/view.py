"""One version of an index as a reader sees it, whatever is written meanwhile.

It holds a read transaction and mapped files; both go when nobody refers to it any more. Threads may share it.
"""

import sqlite3
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.core.errors import CodesError
from nsh.serving.index import snapshot, store
from nsh.serving.index.exact import Found, nearest, within

_ATTEMPTS = 10  # each fails only if two whole versions were written between two statements
_FILTERS_KEPT = 8


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which items may be found: those whose id begins so, and whose metadata column has this value; both if both."""

    id_prefix: str | None = None
    column: str | None = None
    value: str | None = None


class Hit(NamedTuple):
    """One item found."""

    id: str
    distance: int  # bits
    metadata: dict[str, str]


@dataclass(eq=False)
class View:
    """A version, opened."""

    connection: sqlite3.Connection
    settings: dict[str, str]
    version: store.Version
    rows: snapshot.Rows
    lists: Any  # the approximate backend, or None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _selected: dict[Filter, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        weakref.finalize(self, self.connection.close)

    def close(self) -> None:
        """Close the database; the mapped files go with the arrays."""
        self.connection.close()

    def select(self, where: Filter | None) -> NDArray[np.int64] | None:
        """The rows that the filter lets through, ascending; None for all.

        Raises:
            CodesError: a column without a value or the reverse, or no item has the column.
        """
        if where is None or where == Filter():
            return None
        with self._lock:
            if where not in self._selected:
                self._check(where)
                keys = store.select_keys(
                    self.connection, id_prefix=where.id_prefix, column=where.column, value=where.value
                )
                if len(self._selected) >= _FILTERS_KEPT:
                    self._selected.clear()
                self._selected[where] = np.searchsorted(self.rows.keys, keys)
            return self._selected[where]

    def _check(self, where: Filter) -> None:
        if (where.column is None) != (where.value is None):
            raise CodesError("a filter by metadata needs a column and a value: give both")
        if where.column is not None and where.column not in (known := store.columns(self.connection)):
            there = f"there are {', '.join(known)}" if known else "no item has metadata"
            raise CodesError(f"no item has the metadata column {where.column!r}: {there}")

    def nearest(self, query: NDArray[np.uint8], *, k: int, rows: NDArray[np.int64] | None, threads: int) -> list[Found]:
        """Keys and distances of the k nearest of `rows`, exactly, by (distance, key)."""
        found = nearest(query, self._codes(rows), k=k, threads=threads)
        return [(self._keys(rows, places), distances) for places, distances in found]

    def within(
        self, query: NDArray[np.uint8], *, radius: int, rows: NDArray[np.int64] | None, threads: int
    ) -> list[Found]:
        """Keys and distances of those of `rows` within the radius, by (distance, key)."""
        found = within(query, self._codes(rows), radius=radius, threads=threads)
        return [(self._keys(rows, places), distances) for places, distances in found]

    def _codes(self, rows: NDArray[np.int64] | None) -> NDArray[np.uint8]:
        return self.rows.codes if rows is None else self.rows.codes[rows]

    def _keys(self, rows: NDArray[np.int64] | None, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.rows.keys[places if rows is None else rows[places]]

    def hits(self, found: Iterable[Found]) -> list[list[Hit]]:
        """Names and metadata of what was found."""
        found = [(keys.tolist(), distances.tolist()) for keys, distances in found]
        wanted = {key for keys, _ in found for key in keys}
        with self._lock:
            described = store.describe(self.connection, list(wanted))
        return [
            [
                Hit(described[key][0], distance, dict(described[key][1]))
                for key, distance in zip(keys, distances, strict=True)
            ]
            for keys, distances in found
        ]

    def row_of(self, name: str) -> int:
        """The row of an id.

        Raises:
            CodesError: there is none.
        """
        with self._lock:
            keys = store.keys_of(self.connection, [name])
        if not keys:
            raise CodesError(f"the index has no item {name!r}: look at its ids, they are those of `nsh encode`")
        return int(np.searchsorted(self.rows.keys, keys[name]))

    def columns(self) -> list[str]:
        """The names of the metadata columns."""
        with self._lock:
            return store.columns(self.connection)


def open_view(folder: Path, *, known: View | None = None) -> View:
    """Open the newest complete version; if that is the `known` one, its files are not read again.

    Raises:
        CodesError: there is no index, it is damaged, or of a schema this version does not read.
    """
    for _ in range(_ATTEMPTS):
        connection = store.connect(folder, readonly=True)
        try:
            return _open(folder, connection, known)
        except FileNotFoundError as error:  # two versions newer by now
            missing = error
            connection.close()
        except (sqlite3.Error, KeyError, TypeError, ValueError) as error:
            connection.close()
            raise store.damaged(folder, f"{store.FILE}: {error}") from error
        except BaseException:
            connection.close()
            raise
    raise store.damaged(folder, f"{Path(missing.filename).name} is missing")


def _open(folder: Path, connection: sqlite3.Connection, known: View | None) -> View:
    connection.execute("BEGIN")
    settings = store.settings(connection)
    if settings["schema"] != str(store.SCHEMA):
        raise CodesError(f"{folder} has schema {settings['schema']}, this version reads {store.SCHEMA}: build it again")
    version = store.current(connection)
    if known is not None and version == known.version:
        return View(connection, settings, version, known.rows, known.lists)
    rows = snapshot.read(folder, version)
    if rows.codes.shape != (version.items, -(-int(settings["bits"]) // 8)) or rows.keys.shape != (version.items,):
        raise store.damaged(folder, f"{version.items} items, codes {list(rows.codes.shape)}")
    return View(connection, settings, version, rows, read_lists(folder, version))


def read_lists(folder: Path, version: store.Version) -> Any:
    """The approximate backend of a version, or None."""
    if version.lists_sha256 is None:
        return None
    from nsh.serving.index import approximate

    path = snapshot.lists_path(folder, version.number)
    snapshot.check_file(folder, path, sha256=version.lists_sha256)
    return approximate.from_bytes(np.fromfile(path, np.uint8))
