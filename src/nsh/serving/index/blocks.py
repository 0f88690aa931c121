"""The codes of an index in its database: blocks of consecutive keys, each with a checksum.

An item's key never changes, so that its block is `key // KEYS` for ever: a change rewrites the blocks of the changed
items and no other. A block stores the place of each key in it, uint16. A block without items stays, empty, because its
version tells readers that items have gone. Knows nothing of ids.
"""

import sqlite3
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

KEYS = 1 << 13
"""Keys of a block. `benchmarks/index_changes.py` measures what a change costs."""


class Block(NamedTuple):
    """The rows of one block in one version."""

    number: int
    version: int
    keys: NDArray[np.int64]  # [n], ascending
    codes: NDArray[np.uint8]  # [n, bytes]


def ends_of(number: int) -> tuple[int, int]:
    """The first key of a block, and the first after it."""
    return number * KEYS, (number + 1) * KEYS


def number_of(key: int) -> int:
    """The block of a key."""
    return key // KEYS


def numbers_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The blocks of some keys, ascending."""
    return np.unique(keys // KEYS)


def read_changed(connection: sqlite3.Connection, *, since: int, width: int) -> Iterator[Block]:
    """The blocks that versions after `since` changed, in the order of their keys.

    Args:
        connection: in a transaction.
        since: a version; -1: all blocks.
        width: bytes of a code.

    Raises:
        sqlite3.DatabaseError: a block is not what was written.
    """
    for number in changed_numbers(connection, since=since):
        yield read_block(connection, number, width=width)


def changed_numbers(connection: sqlite3.Connection, *, since: int) -> list[int]:
    """The numbers of the blocks that versions after `since` changed, ascending."""
    return sorted(row[0] for row in connection.execute("SELECT number FROM block WHERE version > ?", (since,)))


def read_block(connection: sqlite3.Connection, number: int, *, width: int) -> Block:
    """One block; an empty one of version 0 if there is none yet.

    Raises:
        sqlite3.DatabaseError: it is not what was written.
    """
    columns = "version, checksum, places, codes"
    row = connection.execute(f"SELECT {columns} FROM block WHERE number = ?", (number,)).fetchone()
    if row is None:
        return Block(number, 0, np.empty(0, np.int64), np.empty((0, width), np.uint8))
    version, checksum, places, codes = row
    if checksum != _checksum(number, version, places, codes):
        raise sqlite3.DatabaseError(f"the codes of block {number} are not what was written")
    keys = np.frombuffer(places, np.uint16).astype(np.int64) + ends_of(number)[0]
    return Block(number, version, keys, np.frombuffer(codes, np.uint8).reshape(len(keys), width))


def write_block(connection: sqlite3.Connection, block: Block) -> None:
    """Insert or replace a block."""
    number, version, keys, codes = block
    places, content = (keys - ends_of(number)[0]).astype(np.uint16).tobytes(), np.ascontiguousarray(codes).tobytes()
    row = (number, version, _checksum(number, version, places, content), places, content)
    connection.execute("INSERT OR REPLACE INTO block VALUES (?, ?, ?, ?, ?)", row)


def _checksum(number: int, version: int, places: bytes, codes: bytes) -> int:
    return zlib.crc32(codes, zlib.crc32(places, zlib.crc32(f"{number} {version}".encode())))
