"""The index's SQLite database: ids, metadata, and which version of the codes is current.

A writer's transaction is exclusive; it commits after the version's files are on disk. A reader's transaction is short:
it looks up ids and metadata only if the searched version is still current, so that it neither delays writers nor mixes
versions. SQLite uses a rollback journal: between two changes the database is one complete file, which can be copied,
and read from a read-only mount. Knows nothing of codes or searching.

    setting    settings of the whole index: schema, bits, encoder_identity ...
    version    one row for each version whose files are kept; the highest number is current
    item       key (ascending in the order of insertion) and id
    metadata   one row for each item and column
"""

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from nsh.errors import IndexMissing
from nsh.serving.index.refusals import check_place, convert_wal, damaged, read_only, translating

FILE = "index.sqlite"
SCHEMA = 2
WAIT_SECONDS = 30.0
"""How long a second writer waits for the first."""

_FEW = 100  # keys

_TABLES = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE version (
    number INTEGER PRIMARY KEY, items INTEGER NOT NULL,
    codes_sha256 TEXT NOT NULL, keys_sha256 TEXT NOT NULL, lists_sha256 TEXT);
CREATE TABLE item (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
CREATE TABLE metadata (
    key INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (key, name)) WITHOUT ROWID;
CREATE INDEX metadata_by_value ON metadata (name, value);
"""


class Version(NamedTuple):
    """One complete state of the index."""

    number: int
    items: int
    codes_sha256: str
    keys_sha256: str
    lists_sha256: str | None  # of the approximate backend's file, if there is one


class Superseded(Exception):
    """The version that was searched is no longer current."""


class Database:
    """The database of an index, opened for reading. Threads share one connection and use it one at a time."""

    def __init__(self, folder: Path) -> None:
        """Open the database.

        Raises:
            IndexUnusable: there is none, or it cannot be opened.
        """
        self.folder = folder
        self._connection, self._lock = connect(folder), threading.RLock()
        self.close = weakref.finalize(self, self._connection.close)

    @contextmanager
    def reading(self, version: int | None = None) -> Iterator[sqlite3.Connection]:
        """Open a read transaction, or use the one of this thread; no change is committed before its end.

        Raises:
            Superseded: `version` is not current.
            IndexUnusable: the database cannot be read.
        """
        connection = self._connection
        with self._lock, translate(self.folder):
            outermost = not connection.in_transaction
            if outermost:
                connection.execute("BEGIN")
            try:
                if version not in (None, newest(connection)):
                    raise Superseded
                yield connection
            finally:
                if outermost and connection.in_transaction:
                    connection.execute("ROLLBACK")


def create(folder: Path, settings: Mapping[str, str], first: Version) -> None:
    """Make the database in one transaction.

    Raises:
        IndexUnusable: it cannot be made there.
    """
    check_place(folder)
    with translate(folder):
        connection = sqlite3.connect(folder / FILE, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.executemany("INSERT INTO setting VALUES (?, ?)", [("schema", str(SCHEMA)), *settings.items()])
            put_version(connection, first)
            connection.execute("COMMIT")
        finally:
            connection.close()


def connect(folder: Path) -> sqlite3.Connection:
    """Open the database of an index, for writing if possible.

    Raises:
        IndexUnusable: there is none, or it cannot be opened.
    """
    path = folder / FILE
    if not path.is_file():
        raise IndexMissing(f"there is no index in {folder}: make one with `nsh index build`")
    check_place(folder)
    with translate(folder):
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=rw",  # if it cannot be written, SQLite opens it for reading
            uri=True,
            isolation_level=None,
            timeout=WAIT_SECONDS,
            check_same_thread=False,
        )
        try:
            convert_wal(connection)
            connection.execute("PRAGMA cache_size = -65536")  # KiB: keeps the tree of ids in memory
            connection.execute("PRAGMA mmap_size = 1073741824")  # bytes: a look-up then needs no system call
            connection.execute("PRAGMA synchronous = EXTRA")  # when COMMIT returns, the end of the journal is on disk
            connection.execute("PRAGMA cache_spill = OFF")  # readers wait during the commit only
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def writing(folder: Path) -> Iterator[sqlite3.Connection]:
    """A writer's transaction: committed if the block succeeds and has not committed itself; else rolled back.

    Raises:
        IndexUnusable: another process has been writing for longer than `WAIT_SECONDS`, the folder is read-only, the
            disk is full, or the index is damaged.
    """
    if (folder / FILE).exists() and not (os.access(folder, os.W_OK) and os.access(folder / FILE, os.W_OK)):
        raise read_only(folder)
    connection = connect(folder)
    try:
        with translate(folder):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                if connection.in_transaction:
                    connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
    finally:
        connection.close()


def translate(folder: Path) -> AbstractContextManager[None]:
    """`translating` for the index in `folder`."""
    return translating(folder / FILE, waited=WAIT_SECONDS)


def check(connection: sqlite3.Connection, folder: Path) -> None:
    """Check the whole database.

    Raises:
        IndexDamaged: a part of it is not what was written.
    """
    (finding,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if finding != "ok":
        raise damaged(folder, f"{FILE}: {finding.splitlines()[-1]}")


def settings(connection: sqlite3.Connection) -> dict[str, str]:
    """All settings."""
    return dict(connection.execute("SELECT name, value FROM setting"))


def put_setting(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Set or replace one setting."""
    connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (name, value))


def current(connection: sqlite3.Connection) -> Version:
    """The newest version that this transaction sees."""
    row = connection.execute("SELECT * FROM version ORDER BY number DESC LIMIT 1").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("it has no version")
    return Version(*row)


def newest(connection: sqlite3.Connection) -> int:
    """The number of the newest version."""
    number: int = connection.execute("SELECT MAX(number) FROM version").fetchone()[0]
    return number


def put_version(connection: sqlite3.Connection, version: Version) -> None:
    """Make `version` current."""
    connection.execute("INSERT INTO version VALUES (?, ?, ?, ?, ?)", version)


def forget_versions(connection: sqlite3.Connection, *, keep: int) -> list[int]:
    """Delete all but the newest `keep` versions and return the numbers of these."""
    numbers = [row[0] for row in connection.execute("SELECT number FROM version ORDER BY number DESC")]
    connection.executemany("DELETE FROM version WHERE number = ?", [(number,) for number in numbers[keep:]])
    return numbers[:keep]


def keys_of(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The keys of the `ids` that the index has."""
    rows = connection.execute(
        "SELECT id, key FROM item WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(ids),)
    )
    return dict(rows)


def describe(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, tuple[str, dict[str, str]]]:
    """Id and metadata of each key; the keys come from the codes, so none may be missing."""
    inside, arguments = _among(keys)
    found: dict[int, tuple[str, dict[str, str]]] = {
        key: (name, {}) for key, name in connection.execute(f"SELECT key, id FROM item WHERE key {inside}", arguments)
    }
    if len(found) < len(keys):
        raise sqlite3.DatabaseError("an item is missing")
    for key, name, value in connection.execute(f"SELECT key, name, value FROM metadata WHERE key {inside}", arguments):
        found[key][1][name] = value
    return found


def _among(keys: Sequence[int]) -> tuple[str, Sequence[Any]]:
    """A condition and its arguments: few keys one by one, which is faster, else as a JSON list."""
    if len(keys) <= _FEW:
        return f"IN ({', '.join('?' * len(keys))})", keys
    return "IN (SELECT value FROM json_each(?))", (json.dumps(keys),)


def select_keys(
    connection: sqlite3.Connection, *, id_prefix: str | None, column: str | None, value: str | None
) -> NDArray[np.int64]:
    """Keys, ascending int64, of the items whose id begins with `id_prefix` and whose `column` is `value`."""
    conditions: list[str] = []
    arguments: list[Any] = []
    if id_prefix:
        # In UTF-8 order, every id with the prefix is below the prefix followed by 0xff, which no character contains.
        conditions.append("id >= ? AND id < CAST(? AS TEXT)")
        arguments += [id_prefix, id_prefix.encode() + b"\xff"]
    if column is not None:
        conditions.append("key IN (SELECT key FROM metadata WHERE name = ? AND value = ?)")
        arguments += [column, value]
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    keys = np.fromiter((row[0] for row in connection.execute(f"SELECT key FROM item {where}", arguments)), np.int64)
    keys.sort()
    return keys


def columns(connection: sqlite3.Connection) -> list[str]:
    """The names of the metadata columns that any item has."""
    return [row[0] for row in connection.execute("SELECT DISTINCT name FROM metadata ORDER BY name")]


def insert_items(connection: sqlite3.Connection, items: Sequence[tuple[int, str]]) -> None:
    """Insert (key, id) pairs."""
    connection.executemany("INSERT INTO item VALUES (?, ?)", items)


def delete_items(connection: sqlite3.Connection, keys: Sequence[int]) -> None:
    """Delete items and their metadata."""
    connection.executemany("DELETE FROM item WHERE key = ?", [(key,) for key in keys])
    connection.executemany("DELETE FROM metadata WHERE key = ?", [(key,) for key in keys])


def replace_metadata(connection: sqlite3.Connection, items: Sequence[tuple[int, Mapping[str, str]]]) -> None:
    """Give each key exactly this metadata."""
    connection.executemany("DELETE FROM metadata WHERE key = ?", [(key,) for key, _ in items])
    rows = [(key, name, value) for key, columns in items for name, value in columns.items()]
    connection.executemany("INSERT INTO metadata VALUES (?, ?, ?)", rows)
