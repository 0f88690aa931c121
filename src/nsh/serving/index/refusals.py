"""Turns errors of SQLite and the operating system about an index into `IndexUnusable`, with what to do.

Knows nothing of an index's content.
"""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsh.errors import IndexBusy, IndexDamaged, IndexFull, IndexMisplaced, IndexReadOnly, IndexUnusable
from nsh.system.mounts import file_system
from nsh.system.places import is_full

NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs")
"""File systems whose locks and mapped files are not reliable."""

_UNDER_WAY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_LOCKS_FAIL = (
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOLFS,
    sqlite3.SQLITE_IOERR_LOCK,
    sqlite3.SQLITE_IOERR_UNLOCK,
    sqlite3.SQLITE_IOERR_RDLOCK,
    sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK,
)
_WAL = b"\x02\x02"  # the 19th and 20th byte of a database with a write-ahead log


def check_place(folder: Path) -> None:
    """Make sure that the folder is on a local file system.

    Raises:
        IndexMisplaced: it is on a network file system.
    """
    if (kind := file_system(folder)) in NETWORK:
        raise _misplaced(folder, f"it is on a network file system, {kind}")


@contextmanager
def translating(folder: Path, name: str, *, waited: float) -> Iterator[None]:
    """Turn errors of SQLite and the operating system about an index into an `IndexUnusable`.

    Errors that show a bug (wrong SQL, a closed connection) are not changed.

    Args:
        folder: of the index.
        name: of its SQLite file.
        waited: seconds that SQLite waits for other processes.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.ProgrammingError):
            raise
        raise _refusal(folder / name, error, waited=waited) from error
    except OSError as error:
        refusal = _refusal_by_system(folder, error)
        if refusal is None:
            raise
        raise refusal from error


def _refusal(database: Path, error: sqlite3.DatabaseError, *, waited: float) -> IndexUnusable:
    folder, kind, exact = database.parent, _kind(error), getattr(error, "sqlite_errorcode", 0)
    if kind in _UNDER_WAY:
        return IndexBusy(
            f"another process has been writing to {folder} for {waited:g} s: wait until it is done and try again"
        )
    if (
        kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
        and not os.access(folder, os.W_OK)
        and _is_wal(database)
    ):
        return outdated(folder)
    if exact in _LOCKS_FAIL or kind in _LOCKS_FAIL:
        return _misplaced(folder, f"locks fail there ({error})")
    if kind == sqlite3.SQLITE_FULL:
        return full(folder)
    if exact == sqlite3.SQLITE_READONLY_ROLLBACK:
        return IndexUnusable(
            f"a process was killed while it changed {folder}, and its half change cannot be taken back where nothing "
            "can be written: run `nsh index info` once where the folder can be written"
        )
    if kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return read_only(folder)
    if kind == sqlite3.SQLITE_CANTOPEN:
        return IndexUnusable(f"{database} cannot be opened: check its rights, and the limit on open files")
    if kind == sqlite3.SQLITE_IOERR and exact != sqlite3.SQLITE_IOERR_SHORT_READ:
        return IndexUnusable(f"{database} cannot be read or written ({error}): check the disk")
    return damaged(folder, f"{database.name}: {error}")


def _refusal_by_system(folder: Path, error: OSError) -> IndexUnusable | None:
    if is_full(error):
        return full(folder)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return read_only(folder)
    if error.errno == errno.ENOENT and error.filename:
        return damaged(folder, f"{Path(os.fsdecode(error.filename)).name} is missing")
    return None


def _kind(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF  # the primary code


def _is_wal(path: Path) -> bool:
    """Whether a database has a write-ahead log, as those of an older version of this project.

    Closing the file ends all locks of this process on it (https://sqlite.org/howtocorrupt.html, 2.2): call this only
    where nothing can be written.
    """
    try:
        with path.open("rb") as file:
            return file.read(20)[18:] == _WAL
    except OSError:
        return False


def outdated(folder: Path) -> IndexUnusable:
    """The error for an index of an older version of this project."""
    return IndexUnusable(
        f"{folder} is an index of an older version: `nsh index upgrade {folder} --encoder encoder.onnx` converts it"
    )


def damaged(folder: Path, finding: str) -> IndexDamaged:
    """The error for an index that is not what was written."""
    return IndexDamaged(f"the index in {folder} is damaged ({finding}): restore a backup, or build it again")


def full(folder: Path) -> IndexFull:
    """The error for a change on a full disk."""
    return IndexFull(f"the disk is full: nothing was changed in {folder}; free some space and try again")


def read_only(folder: Path) -> IndexReadOnly:
    """The error for a change in a folder that cannot be written."""
    return IndexReadOnly(f"{folder} cannot be written to: change its rights, or work on a copy")


def _misplaced(folder: Path, finding: str) -> IndexMisplaced:
    return IndexMisplaced(f"an index cannot be kept in {folder} ({finding}): keep it on a local disk")
