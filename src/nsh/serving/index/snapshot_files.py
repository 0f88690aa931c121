"""The files of one version of an index: written under a temporary name, then renamed; mapped for reading.

    <number>.codes.npy    uint8 [n, ceil(bits / 8)], in the order of insertion
    <number>.keys.npy     int64 [n], ascending: the database's key of each row
    <number>.lists.faiss  the approximate backend, if there is one

Every version has new files. A million 64-bit codes are 16 MB and take a tenth of the time of their ids to write; so
there are no segments, no tombstones and no compaction. A mapped file stays readable after it was deleted, so a reader
of an old version loses nothing. Knows nothing of ids.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.serving.index.refusals import damaged
from nsh.serving.index.sqlite import Version
from nsh.system.files import sha256_file
from nsh.system.places import blaming

FOLDER = "snapshots"
KEEP = 2
"""Versions whose files are kept, so that a reader finds the files of a version whose number it has just read."""


class Rows(NamedTuple):
    """Codes and keys, one of each in a row."""

    codes: NDArray[np.uint8]
    keys: NDArray[np.int64]


def codes_path(folder: Path, number: int) -> Path:
    """The file of a version's codes."""
    return folder / FOLDER / f"{number:010d}.codes.npy"


def keys_path(folder: Path, number: int) -> Path:
    """The file of a version's keys."""
    return folder / FOLDER / f"{number:010d}.keys.npy"


def lists_path(folder: Path, number: int) -> Path:
    """The file of a version's approximate backend."""
    return folder / FOLDER / f"{number:010d}.lists.faiss"


def write(folder: Path, number: int, rows: Rows) -> tuple[str, str]:
    """Write the two files of a version so that they survive a power cut; return their sha256."""
    digests = _write_array(codes_path(folder, number), rows.codes), _write_array(keys_path(folder, number), rows.keys)
    sync(folder / FOLDER)
    return digests


def _write_array(path: Path, array: NDArray[np.uint8] | NDArray[np.int64]) -> str:
    return _write(path, lambda file: np.save(file, np.ascontiguousarray(array), allow_pickle=False))


def write_lists(folder: Path, number: int, content: NDArray[np.uint8]) -> str:
    """Write the approximate backend of a version; return its sha256."""
    digest = _write(lists_path(folder, number), content.tofile)
    sync(folder / FOLDER)
    return digest


def _write(path: Path, fill: Callable[[BinaryIO], None]) -> str:
    partial = path.with_suffix(".partial")
    with blaming(path, partial), partial.open("wb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())
    digest = sha256_file(partial)
    partial.replace(path)
    return digest


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(folder: Path, version: Version) -> Rows:
    """Check the files of a version against their digests, and map them.

    Raises:
        FileNotFoundError: they were deleted because there are newer versions.
        CodesError: they are not the files that were written.
    """
    codes = _map(folder, codes_path(folder, version.number), sha256=version.codes_sha256)
    keys = _map(folder, keys_path(folder, version.number), sha256=version.keys_sha256)
    return Rows(codes, keys)


def _map(folder: Path, path: Path, *, sha256: str) -> NDArray[Any]:
    check_file(folder, path, sha256=sha256)
    mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    return mapped


def check_file(folder: Path, path: Path, *, sha256: str) -> None:
    """Make sure that a file is the one that was written.

    Raises:
        FileNotFoundError: it is missing.
        CodesError: it has another digest.
    """
    if sha256_file(path) != sha256:
        raise damaged(folder, f"{path.name} is not the file that was written")


@contextmanager
def undoing(folder: Path, number: int) -> Iterator[None]:
    """Delete the files of a version if the block fails, so that a full disk does not stay full."""
    try:
        yield
    except Exception:
        for path in (folder / FOLDER).glob(f"{number:010d}.*"):
            path.unlink(missing_ok=True)
        raise


def delete_others(folder: Path, keep: list[int]) -> None:
    """Delete the files of all other versions and of killed writers. The caller must hold the writer's lock."""
    names = {path(folder, number).name for number in keep for path in (codes_path, keys_path, lists_path)}
    for path in (folder / FOLDER).iterdir():
        if path.name not in names:
            path.unlink(missing_ok=True)
