"""Connections to an index's SQLite file, and their transactions. Knows nothing of what the file holds.

SQLite uses a rollback journal: between two changes the file is complete, can be copied, and is read from a read-only
mount; there is no log that could grow. A writer's transaction is exclusive. Readers' transactions are short, because a
change waits for them at its commit. Every thread that reads has its own connection: no reader waits for another.
"""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from nsh.errors import IndexMissing
from nsh.serving.index.refusals import check_place, outdated, read_only, translating
from nsh.serving.index.succession import check_address

FILE = "index.sqlite"
WAIT_SECONDS = 30.0
"""How long a second writer waits for the first."""

_MAPPED_BYTES = 1 << 31  # SQLite's own limit; a read of a mapped page needs no system call


class Database:
    """The file of an index, opened for reading. Any number of threads may use it, also in a forked child.

    Attributes:
        folder: the index's folder.
        refreshing: a lock for its user, which is free again in a forked child.
    """

    def __init__(self, folder: Path) -> None:
        """Open the database.

        Raises:
            IndexUnusable: there is none, or it cannot be opened.
        """
        check_place(folder)
        self.folder = folder
        self._begin([connect(folder)])
        _OPEN.add(self)

    def _begin(self, idle: list[sqlite3.Connection]) -> None:
        self.refreshing, self._idle, self._mine = threading.RLock(), idle, threading.local()
        self.close = weakref.finalize(self, _close, idle)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a read transaction, or use the one of this thread; no change is committed before its end.

        Raises:
            IndexUnusable: the database cannot be read.
        """
        current: sqlite3.Connection | None = getattr(self._mine, "connection", None)
        with translate(self.folder):
            if current is not None:
                yield current
                return
            connection = self._take()
            try:
                connection.execute("BEGIN")
                self._mine.connection = connection
                yield connection
            finally:
                self._mine.connection = None
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._idle.append(connection)

    def ids_beyond(self, other: Path) -> list[str]:
        """The ids that this database has, and that of the index in the folder `other` does not."""
        with translate(self.folder), closing(connect(self.folder)) as connection:
            connection.execute("ATTACH ? AS other", (f"file:{quote(str((other / FILE).absolute()))}?mode=ro",))
            missing = "NOT EXISTS (SELECT 1 FROM other.item AS its WHERE its.id = mine.id)"
            return [id for (id,) in connection.execute(f"SELECT id FROM main.item AS mine WHERE {missing}")]

    def _take(self) -> sqlite3.Connection:
        if not self.close.alive:
            raise sqlite3.ProgrammingError("the index was closed: it is a closed database")
        try:
            return self._idle.pop()
        except IndexError:
            return connect(self.folder)

    def _open_again(self) -> None:
        """In a forked child, leave the parent's connections alone: do not even close them.

        Source: https://sqlite.org/howtocorrupt.html, 2.6.
        """
        _INHERITED.append(self._idle)
        self.close.detach()
        self._begin([])


_OPEN: weakref.WeakSet[Database] = weakref.WeakSet()
_INHERITED: list[list[sqlite3.Connection]] = []


def _after_fork() -> None:
    for database in list(_OPEN):
        database._open_again()


os.register_at_fork(after_in_child=_after_fork)


def _close(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


def connect(folder: Path) -> sqlite3.Connection:
    """Open the database of an index, for writing if possible.

    Raises:
        IndexUnusable: there is none, or it cannot be opened.
    """
    path = folder / FILE
    if not path.is_file():
        raise IndexMissing(f"there is no index in {folder}: make one with `nsh index build`")
    connection = _open(path, mode="rw")  # if it cannot be written, SQLite opens it for reading
    with translate(folder):
        if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            connection.close()
            raise outdated(folder)
    return connection


def _open(path: Path, *, mode: str) -> sqlite3.Connection:
    with translate(path.parent):
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=WAIT_SECONDS,
            check_same_thread=False,
        )
        try:
            connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
            connection.execute("PRAGMA synchronous = EXTRA")  # when COMMIT returns, the end of the journal is on disk
            connection.execute("PRAGMA cache_spill = OFF")  # readers wait during the commit only
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def creating(folder: Path) -> Iterator[sqlite3.Connection]:
    """A transaction in a new database, in an existing folder.

    Raises:
        IndexUnusable: it cannot be made there.
    """
    check_place(folder)
    with _transaction(folder, _open(folder / FILE, mode="rwc")) as connection:
        yield connection


@contextmanager
def writing(folder: Path) -> Iterator[sqlite3.Connection]:
    """A writer's transaction: committed if the block succeeds, else rolled back.

    Raises:
        IndexUnusable: another process has been writing for longer than `WAIT_SECONDS`, another index has replaced this
            one, the folder is read-only, the disk is full, or the index is damaged.
    """
    if (folder / FILE).exists() and not (os.access(folder, os.W_OK) and os.access(folder / FILE, os.W_OK)):
        raise read_only(folder)
    with _transaction(folder, connect(folder)) as connection:
        check_address(folder)
        yield connection


@contextmanager
def _transaction(folder: Path, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        with translate(folder):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
    finally:
        connection.close()


def translate(folder: Path) -> AbstractContextManager[None]:
    """`translating` for the index in `folder`."""
    return translating(folder, FILE, waited=WAIT_SECONDS)
