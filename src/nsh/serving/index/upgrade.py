"""Converts an index of schema 1, which had its codes in files beside the database, `snapshots/`.

The new database is made in a temporary folder and takes the place of the old one when it is complete; only then the old
codes are deleted. Whoever is killed before leaves the old index, and may begin again.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.errors import CodesError, IndexMissing, IndexUnusable
from nsh.serving.index import schema, writer
from nsh.serving.index.database import FILE, translate, writing
from nsh.serving.index.refusals import check_place, damaged
from nsh.system.files import sha256_file
from nsh.system.partial import clear_leftovers, reserve_folder

CODES = "snapshots"
_STEP = 100_000  # items of one transaction


class _Step(NamedTuple):
    ids: list[str]
    codes: NDArray[np.uint8]
    metadata: list[dict[str, str]]


def upgrade(folder: Path, *, encoder_sha256: str, encoder_identity: str) -> None:
    """Convert the index in `folder`; no other process may be using it.

    An index of the present schema stays as it is, apart from old codes that a killed conversion left.

    Args:
        folder: of the index.
        encoder_sha256: digest of the encoder's file, which must be the one that the old index names.
        encoder_identity: what the new index names instead.

    Raises:
        CodesError: the old index holds another encoder's codes.
        IndexUnusable: there is no index, it is in use, damaged, or cannot be written.
    """
    if not (folder / FILE).is_file():
        raise IndexMissing(f"there is no index in {folder}: make one with `nsh index build`")
    check_place(folder)
    with translate(folder), closing(sqlite3.connect(folder / FILE, isolation_level=None, timeout=1)) as old:
        settings = dict(old.execute("SELECT name, value FROM setting"))
        if settings.get("schema") == "1":
            _check_encoder(folder, settings["encoder_sha256"], given=encoder_sha256)
            _convert(folder, old, bits=int(settings["bits"]), encoder_identity=encoder_identity)
        else:
            schema.read_settings(old, folder)
        shutil.rmtree(folder / CODES, ignore_errors=True)


def _check_encoder(folder: Path, recorded: str, *, given: str) -> None:
    if given != recorded:
        raise CodesError(
            f"{folder} holds codes of the encoder file with sha256 {recorded[:12]}, the one given has {given[:12]}: "
            "give the file that made the codes"
        )


def _convert(folder: Path, old: sqlite3.Connection, *, bits: int, encoder_identity: str) -> None:
    if old.execute("PRAGMA journal_mode = DELETE").fetchone() != ("delete",):  # a log would be taken for the new file's
        raise IndexUnusable(f"{folder} is in use: stop the processes that use it, and try again")
    clear_leftovers(folder / FILE)
    old.execute("BEGIN EXCLUSIVE")
    number, keys, codes = _map_codes(folder, old)
    with reserve_folder(folder / FILE) as partial:
        writer.create(partial, bits=bits, encoder_identity=encoder_identity)
        for ids, part, metadata in _steps(old, keys, codes):
            writer.add(partial, ids, part, metadata=metadata)
        with writing(partial) as connection:
            made = schema.read_settings(connection, partial)
            if made.items != len(keys):
                raise damaged(folder, f"{made.items} ids and {len(keys)} codes do not belong together")
            schema.put_settings(connection, made._replace(version=number + 1))
        (partial / FILE).replace(folder / FILE)


def _map_codes(folder: Path, old: sqlite3.Connection) -> tuple[int, NDArray[np.int64], NDArray[np.uint8]]:
    """The newest version's number, and its keys and codes, mapped from their files."""
    row = old.execute("SELECT number, keys_sha256, codes_sha256 FROM version ORDER BY number DESC LIMIT 1").fetchone()
    if row is None:
        raise damaged(folder, "it has no version")
    number, arrays = int(row[0]), list[NDArray[Any]]()
    for kind, digest in zip(("keys", "codes"), row[1:], strict=True):
        path = folder / CODES / f"{number:010d}.{kind}.npy"
        if sha256_file(path) != digest:
            raise damaged(folder, f"{path.name} is not the file that was written")
        arrays.append(np.load(path, mmap_mode="r", allow_pickle=False))
    return number, arrays[0], arrays[1]


def _steps(old: sqlite3.Connection, keys: NDArray[np.int64], codes: NDArray[np.uint8]) -> Iterator[_Step]:
    for start in range(0, len(keys), _STEP):
        part = keys[start : start + _STEP]
        ends = int(part[0]), int(part[-1])
        ids = dict(old.execute("SELECT key, id FROM item WHERE key BETWEEN ? AND ?", ends))
        if list(ids) != part.tolist():
            raise sqlite3.DatabaseError("ids and codes do not belong together")
        metadata: dict[int, dict[str, str]] = {key: {} for key in ids}
        for key, name, value in old.execute("SELECT key, name, value FROM metadata WHERE key BETWEEN ? AND ?", ends):
            metadata[key][name] = value
        yield _Step(list(ids.values()), np.array(codes[start : start + _STEP]), list(metadata.values()))
