"""Changes an index, each time in one transaction: a writer that is killed at any time leaves the former version.

Knows nothing of searching.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import code_bytes
from nsh.core.names import listed
from nsh.errors import CodesError, UnknownItem
from nsh.serving.index import blocks, items, schema
from nsh.serving.index.blocks import Block, ends_of
from nsh.serving.index.database import creating, translate, writing
from nsh.serving.index.items import Item
from nsh.serving.index.rows import Part, join, no_rows
from nsh.serving.index.schema import Settings
from nsh.system.folders import is_empty


def create(folder: Path, *, bits: int, encoder_identity: str) -> None:
    """Make an empty index.

    Raises:
        CodesError: the folder is not empty.
    """
    if folder.exists() and not (folder.is_dir() and is_empty(folder)):
        raise CodesError(f"{folder} is not empty: name a new folder, or add to the index there with `nsh index add`")
    with translate(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with creating(folder) as connection:
        schema.create(connection, schema.Settings(bits, encoder_identity, version=0, items=0))


def add(
    folder: Path, ids: Sequence[str], codes: NDArray[np.uint8], *, metadata: Sequence[Mapping[str, str]] | None
) -> int:
    """Add checked items and return how many are new.

    An existing id gets the new code and keeps its place, and its metadata if none are given.
    """
    with writing(folder) as connection:
        settings = schema.read_settings(connection, folder)
        known = items.by_id(connection, ids)
        keys = _assign_keys(ids, known, first=items.next_key(connection))
        if metadata is not None:
            put = [Item(key, name, dict(cells)) for key, name, cells in zip(keys, ids, metadata, strict=True)]
            items.change(connection, former=list(known.values()), put=put)
        else:
            put = [Item(key, name, {}) for key, name in zip(keys, ids, strict=True) if name not in known]
            items.change(connection, former=[], put=put)
        order = np.argsort(keys)
        new = Part(codes[order], np.array(keys, np.int64)[order])
        _rewrite(connection, settings, gone=new.keys, new=new)
    return len(ids) - len(known)


def _assign_keys(ids: Sequence[str], known: Mapping[str, Item], *, first: int) -> list[int]:
    """The key of each id; new ones have the next keys from `first` on."""
    new = iter(range(first, first + len(ids)))
    return [known[name].key if name in known else next(new) for name in ids]


def remove(folder: Path, ids: Sequence[str]) -> None:
    """Remove items.

    Raises:
        UnknownItem: an id is missing; then no item is removed.
    """
    with writing(folder) as connection:
        settings = schema.read_settings(connection, folder)
        known = items.by_id(connection, ids)
        unknown = [name for name in ids if name not in known]
        if unknown:
            raise UnknownItem(f"the index has no item {listed(unknown)}: nothing was removed")
        items.change(connection, former=list(known.values()), put=[])
        keys = np.sort(np.array([item.key for item in known.values()], np.int64))
        _rewrite(connection, settings, gone=keys, new=no_rows(code_bytes(settings.bits)))


def _rewrite(connection: sqlite3.Connection, settings: Settings, *, gone: NDArray[np.int64], new: Part) -> None:
    """Make the next version: take rows with the keys `gone`, int64 [n] ascending, out of their blocks, and put new in.

    Keys in `gone` that no block has do not matter; the keys of `new` are among them.
    """
    version, count, width = settings.version + 1, settings.items, code_bytes(settings.bits)
    for number in blocks.numbers_of(gone).tolist():
        before = blocks.read_block(connection, number, width=width)
        ends = ends_of(number)
        leaving, coming = slice(*np.searchsorted(gone, ends)), slice(*np.searchsorted(new.keys, ends))
        kept = Part(before.codes, before.keys).take(~np.isin(before.keys, gone[leaving], assume_unique=True))
        after = join(kept, Part(new.codes[coming], new.keys[coming]))
        blocks.write_block(connection, Block(number, version, after.keys, after.codes))
        count += len(after) - len(before.keys)
    schema.put_settings(connection, settings._replace(version=version, items=count))
