"""Turns an OSError about a file or folder into one sentence: what is wrong, and what to do.

Knows nothing of what the place is used for.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)
_HARDLY_ANY = 64 * 1024  # bytes free, when a write failed for want of room

_REMEDIES = {
    errno.EACCES: "give yourself the right to it, or name another place",
    errno.EPERM: "give yourself the right to it, or name another place",
    errno.EROFS: "name a place that can be written, or mount it for writing",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: one of its parts is a file",
    errno.EISDIR: "name a file, this is a folder",
    errno.EEXIST: "name another, or delete it",
    errno.ENOTEMPTY: "name another, or empty it",
    errno.EBUSY: "stop what is using it, or name another place",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "mend the links, they lead back to themselves",
    errno.EMFILE: "raise the limit on open files (`ulimit -n`)",
    errno.ENFILE: "raise the machine's limit on open files",
    errno.EIO: "check the disk, or the network it is reached by",
    errno.ESTALE: "mount the network file system again",
    errno.EFBIG: "raise the limit on the size of files (`ulimit -f`), or use another file system",
}
_WITHOUT_A_PLACE = (*_FULL, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EFBIG)


def explain(error: OSError) -> str | None:
    """The sentence for a user; None if the error names no path: then it is a bug, or another package explains it."""
    place = place_of(error)
    if place is None and error.errno not in _WITHOUT_A_PLACE:
        return None
    if error.errno in _FULL:
        where = f" while writing {place}" if place else ""
        return f"the disk is full{where}: free some space and run the same command again"
    remedy = _REMEDIES.get(error.errno or 0, "check the path")
    reason = error.strerror or str(error) or type(error).__name__
    return f"{place or 'a file'} cannot be used ({reason}): {remedy}"


def place_of(error: OSError) -> str | None:
    """The path that the error names; of two paths, the one to be created."""
    for name in (error.filename2, error.filename):
        if isinstance(name, str | bytes | os.PathLike):
            return os.fsdecode(name)
    return None


def is_full(error: OSError) -> bool:
    """Whether the disk or the quota was full."""
    return error.errno in _FULL


@contextmanager
def blaming(place: Path, partial: Path) -> Iterator[None]:
    """Make the OSErrors of a block that writes to `partial` name `place`, which the user chose.

    A write that fails names no file. NumPy ("1000 requested and 200 written") and torch do not even say that the disk
    is full, so the disk is asked.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        fault = error.errno if isinstance(error, OSError) else None
        if fault is None and _has_no_room(partial):
            fault = errno.ENOSPC
        named = place_of(error) if isinstance(error, OSError) else None
        if fault is None or (named is not None and not Path(named).is_relative_to(partial)):
            raise
        raise OSError(fault, os.strerror(fault), str(place)) from error


def _has_no_room(path: Path) -> bool:
    return shutil.disk_usage(path if path.exists() else path.parent).free < _HARDLY_ANY
