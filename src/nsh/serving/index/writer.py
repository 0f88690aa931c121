"""Changes an index in one transaction: the new version is written to disk, then it becomes current.

If the writer is killed at any time, the former version stays current, and the next writer deletes its files. Knows
nothing of searching.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.core.names import listed
from nsh.errors import CodesError, UnknownItem
from nsh.serving.index import approximate, snapshot_files, sqlite
from nsh.serving.index.snapshot import read_lists
from nsh.system.folders import is_empty


class Change(NamedTuple):
    """A change of rows: keys in `gone` are removed, `keys` (new or changed) get `codes`."""

    gone: NDArray[np.int64]
    keys: NDArray[np.int64]
    codes: NDArray[np.uint8]


def create(folder: Path, *, bits: int, width: int, settings: Mapping[str, str]) -> None:
    """Make an empty index.

    Raises:
        CodesError: the folder is not empty.
    """
    if folder.exists() and not (folder.is_dir() and is_empty(folder)):
        raise CodesError(f"{folder} is not empty: name a new folder, or add to the index there with `nsh index add`")
    with sqlite.translate(folder):
        (folder / snapshot_files.FOLDER).mkdir(parents=True, exist_ok=True)
        digests = snapshot_files.write(
            folder, 0, snapshot_files.Rows(np.empty((0, width), np.uint8), np.empty(0, np.int64))
        )
        sqlite.create(folder, {"bits": str(bits), **settings}, sqlite.Version(0, 0, *digests, None))
        snapshot_files.sync(folder)


def add(
    folder: Path,
    ids: Sequence[str],
    codes: NDArray[np.uint8],
    *,
    metadata: Sequence[Mapping[str, str]] | None,
    threads: int,
) -> int:
    """Add checked items and return how many are new.

    An existing id gets the new code and keeps its place, and its metadata if none are given.
    """
    with sqlite.writing(folder) as connection:
        rows = snapshot_files.read(folder, sqlite.current(connection))
        known = sqlite.keys_of(connection, ids)
        first = int(rows.keys[-1]) + 1 if len(rows.keys) else 0
        new = [name for name in ids if name not in known]
        known.update(zip(new, range(first, first + len(new)), strict=True))
        keys = np.array([known[name] for name in ids], np.int64)
        change = Change(keys[keys < first], keys, codes)
        with _publishing(folder, connection, rows=rows, change=change, threads=threads):
            sqlite.insert_items(connection, [(known[name], name) for name in new])
            if metadata is not None:
                sqlite.replace_metadata(connection, list(zip(keys.tolist(), metadata, strict=True)))
    return len(new)


def remove(folder: Path, ids: Sequence[str], *, threads: int) -> None:
    """Remove items.

    Raises:
        UnknownItem: an id is missing; then no item is removed.
    """
    with sqlite.writing(folder) as connection:
        rows = snapshot_files.read(folder, sqlite.current(connection))
        known = sqlite.keys_of(connection, ids)
        unknown = [name for name in ids if name not in known]
        if unknown:
            raise UnknownItem(f"the index has no item {listed(unknown)}: nothing was removed")
        keys = np.array(list(known.values()), np.int64)
        nothing = Change(keys, np.empty(0, np.int64), np.empty((0, rows.codes.shape[1]), np.uint8))
        with _publishing(folder, connection, rows=rows, change=nothing, threads=threads):
            sqlite.delete_items(connection, keys.tolist())


@contextmanager
def _publishing(
    folder: Path, connection: sqlite3.Connection, *, rows: snapshot_files.Rows, change: Change, threads: int
) -> Iterator[None]:
    """Write the files of a new version; let the block change items; then commit both.

    The files come first, because they take long. A process that is killed before the database changes leaves it as it
    is; one that is killed later leaves a journal, which a reader without the right to write cannot roll back.
    """
    before = sqlite.current(connection)
    number = before.number + 1
    with snapshot_files.undoing(folder, number):
        changed = apply(rows, change)
        digests = snapshot_files.write(folder, number, changed)
        lists, tuning = _write_lists(folder, connection, before=before, rows=changed, change=change, threads=threads)
        for name, value in tuning.items():
            sqlite.put_setting(connection, name, value)
        yield
        sqlite.put_version(connection, sqlite.Version(number, len(changed.keys), *digests, lists))
        snapshot_files.delete_others(folder, sqlite.forget_versions(connection, keep=snapshot_files.KEEP))
        connection.execute("COMMIT")


def apply(rows: snapshot_files.Rows, change: Change) -> snapshot_files.Rows:
    """The rows after a change, in memory; keys stay ascending."""
    fresh = ~np.isin(change.keys, change.gone)
    updated, codes = change.keys[~fresh], np.array(rows.codes)
    codes[np.searchsorted(rows.keys, updated)] = change.codes[~fresh]
    leaving = np.isin(rows.keys, np.setdiff1d(change.gone, updated), assume_unique=True)
    order = np.argsort(change.keys[fresh])
    keys = np.concatenate([rows.keys[~leaving], change.keys[fresh][order]])
    return snapshot_files.Rows(np.concatenate([codes[~leaving], change.codes[fresh][order]]), keys)


def _write_lists(
    folder: Path,
    connection: sqlite3.Connection,
    *,
    before: sqlite.Version,
    rows: snapshot_files.Rows,
    change: Change,
    threads: int,
) -> tuple[str | None, dict[str, str]]:
    """Write the approximate backend if the index is large enough: its sha256, and the settings that change with it."""
    settings = sqlite.settings(connection)
    limit = settings.get("approximate_above")
    if limit is None or len(rows.keys) <= int(limit):
        return None, {}
    lists, changed = read_lists(folder, before), {}
    if lists is None or len(rows.keys) > 2 * int(settings["approximate_rows"]):
        lists, tuning = approximate.build(rows.codes, rows.keys, bits=int(settings["bits"]), threads=threads)
        changed = {f"approximate_{name}": str(value) for name, value in tuning._asdict().items()}
    else:
        approximate.update(lists, change.codes, keys=change.keys, gone=change.gone, threads=threads)
    return snapshot_files.write_lists(folder, before.number + 1, approximate.to_bytes(lists)), changed
