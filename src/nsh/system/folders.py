"""Folders that are complete or absent. Knows nothing of their content."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsh.system.mounts import is_mount_point
from nsh.system.partial import clear_leftovers, delete, is_partial, reserve_folder
from nsh.system.places import blaming

CACHE = Path(".cache/nsh")
"""In a project's folder: partial state and measured times, which are not outputs."""

RESERVED = "lost+found"
"""Folders that an empty file system contains."""


def is_empty(folder: Path) -> bool:
    """Whether a folder is empty, apart from what a new file system or a killed writer has left in it."""
    return not any(_contents(folder))


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder that takes the place of `path` if the block succeeds, else vanishes.

    What was at `path` before stays until the block has succeeded; a link is followed. A folder that cannot be replaced,
    because a file system is mounted there or its parent cannot be written, is filled from within: whoever is killed
    just then leaves a part of what was to be there, folders first.

    Raises:
        OSError: names `path` if it cannot be written.
    """
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    within = _must_be_filled(path)
    beside = path / path.name if within else path
    clear_leftovers(beside)
    with reserve_folder(beside) as partial, blaming(path, partial):
        yield partial
        _fill(path, partial) if within else _replace(path, partial)


def _must_be_filled(path: Path) -> bool:
    if not path.is_dir():
        return False
    if is_mount_point(path):
        return True
    try:
        with reserve_folder(path):
            return False
    except PermissionError:
        return True
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return True


def _replace(path: Path, partial: Path) -> None:
    if not path.exists():
        partial.replace(path)
        return
    with reserve_folder(path) as former:
        path.replace(former)
        try:
            partial.replace(path)
        except OSError:
            former.replace(path)
            raise


def _fill(path: Path, partial: Path) -> None:
    for entry in _contents(path):
        delete(entry)
    for entry in sorted(partial.iterdir(), key=lambda entry: not entry.is_dir()):
        entry.replace(path / entry.name)


def _contents(folder: Path) -> Iterator[Path]:
    return (entry for entry in folder.iterdir() if entry.name != RESERVED and not is_partial(entry.name, of=folder))
