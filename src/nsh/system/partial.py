"""Temporary files and folders beside the paths that they will replace, each with one writer at a time.

A writer holds a lock (flock) on its temporary name, and the lock goes with the process, however it ends: so the next
writer knows what a dead one left, and takes it over. A process id could not tell, because ids repeat in containers.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

_LONGEST = 200  # bytes of a name that its temporary name repeats; a file system allows 255 in all
_UNTOUCHED = 0  # nanoseconds since 1970: when no writer wrote


@contextmanager
def reserve_file(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of `path` to write to; delete it at the end if it is still there."""
    with _reserve(path, _open_file) as partial:
        os.utime(partial, ns=(_UNTOUCHED, _UNTOUCHED))
        try:
            yield partial
        finally:
            partial.unlink(missing_ok=True)


def check_written(partial: Path) -> None:
    """Make sure that something was written to the temporary file.

    Raises:
        FileNotFoundError: nothing was.
    """
    if partial.stat().st_mtime_ns == _UNTOUCHED:
        partial.unlink()
        partial.stat()  # raises what an absent file raises


@contextmanager
def reserve_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside `path`; delete it at the end if it is still there."""
    with _reserve(path, _open_folder) as partial:
        empty_folder(partial)
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def empty_folder(folder: Path) -> None:
    """Delete what is in a folder."""
    for entry in folder.iterdir():
        delete(entry)


def delete(entry: Path) -> None:
    """Delete a file, a link, or a folder with all that is in it."""
    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def clear_leftovers(path: Path) -> None:
    """Delete the temporary folders beside `path` that no running process has locked."""
    for entry in [entry for entry in path.parent.iterdir() if is_partial(entry.name, of=path) and entry.is_dir()]:
        with suppress(OSError):  # another writer clears them too, or nobody may
            descriptor = os.open(entry, os.O_RDONLY)
            try:
                if _lock(descriptor):
                    shutil.rmtree(entry, ignore_errors=True)
            finally:
                os.close(descriptor)


def is_partial(name: str, *, of: Path) -> bool:
    """Whether `name` is that of a temporary sibling of the path `of`."""
    return name.startswith(f".{_short(of.name)}.") and name.endswith((".partial", ".former"))


@contextmanager
def _reserve(path: Path, open_partial: Callable[[Path], int]) -> Iterator[Path]:
    for number in map(str, count()):
        partial = _sibling(path, number)
        try:
            descriptor = open_partial(partial)
        except (IsADirectoryError, NotADirectoryError, FileExistsError):  # a writer of the other kind left it
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        try:
            locked = _lock(descriptor)
            if locked is None:  # this file system has no locks: take a name that nobody else will
                partial.rmdir() if partial.is_dir() else partial.unlink()
                partial = _sibling(path, secrets.token_hex(8))
                os.close(open_partial(partial))
            elif not (locked and _is_at(partial, descriptor)):
                continue
            yield partial
            return
        finally:
            os.close(descriptor)


def _sibling(path: Path, distinction: str) -> Path:
    return path.with_name(f".{_short(path.name)}.{distinction}.partial")


def _short(name: str) -> str:
    content = os.fsencode(name)
    return name if len(content) <= _LONGEST else hashlib.sha256(content).hexdigest()


def _open_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)


def _open_folder(path: Path) -> int:
    path.mkdir(exist_ok=True)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def _lock(descriptor: int) -> bool | None:
    """Whether the lock was acquired; None where locks are not available."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether what is open lies at `path`: its last owner may have renamed or deleted it before we had the lock."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
