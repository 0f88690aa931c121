"""The items of an index in its database: ids and metadata. Knows nothing of codes."""

import json
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from nsh.serving.index.checks import storable

_FEW = 100  # values in a condition; SQLite reads more of them faster from a JSON list
_MANY = 100_000  # new items, for which the tree of ids is made anew


class Item(NamedTuple):
    """One item without its code."""

    key: int
    id: str
    metadata: dict[str, str]


def by_id(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Item]:
    """The items that the index has of these ids.

    Raises:
        sqlite3.DatabaseError: an item is not what was written.
    """
    possible = ids if storable(ids) else [name for name in ids if storable([name])]
    return {item.id: item for item in _read(connection, "id", possible)}


def by_key(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, Item]:
    """The items of these keys, which come from the codes, so that none may be missing.

    Raises:
        sqlite3.DatabaseError: an item is missing, or not what was written.
    """
    found = {item.key: item for item in _read(connection, "key", keys)}
    if len(found) < len(set(keys)):
        raise sqlite3.DatabaseError("an item is missing")
    return found


def _read(connection: sqlite3.Connection, column: str, values: Sequence[Any]) -> Iterator[Item]:
    among = ", ".join("?" * len(values)) if len(values) <= _FEW else "SELECT value FROM json_each(?)"
    arguments = values if len(values) <= _FEW else (json.dumps(values),)
    rows = connection.execute(f"SELECT key, id, metadata, checksum FROM item WHERE {column} IN ({among})", arguments)
    for key, name, metadata, checksum in rows:
        if checksum != checksum_of(key, name, metadata):
            raise sqlite3.DatabaseError(f"the item with key {key} is not what was written")
        yield Item(key, name, {} if metadata is None else json.loads(metadata))


def next_key(connection: sqlite3.Connection) -> int:
    """A key above all others."""
    last: int | None = connection.execute("SELECT MAX(key) FROM item").fetchone()[0]
    return 0 if last is None else last + 1


def change(connection: sqlite3.Connection, *, former: Sequence[Item], put: Sequence[Item]) -> None:
    """Put items in the place of `former` ones, whose keys they have; the other former ones are deleted."""
    kept = {item.key for item in put}
    connection.executemany("DELETE FROM item WHERE key = ?", [(item.key,) for item in former if item.key not in kept])
    anew = len(put) > _MANY and len(put) > next_key(connection)
    if anew:  # in one sort, where single insertions in a random order would take ten times as long
        connection.execute("DROP INDEX item_by_id")
    connection.executemany(
        "INSERT INTO item VALUES (?, ?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET metadata = excluded.metadata, checksum = excluded.checksum",
        map(_row, put),
    )
    if anew:
        connection.execute("CREATE UNIQUE INDEX item_by_id ON item (id)")
    connection.executemany("DELETE FROM metadata WHERE name = ? AND value = ? AND key = ?", _cells(former))
    connection.executemany("INSERT INTO metadata VALUES (?, ?, ?)", _cells(put))
    _count_facets(connection, former=former, put=put)


def _count_facets(connection: sqlite3.Connection, *, former: Sequence[Item], put: Sequence[Item]) -> None:
    counts = Counter(name for item in put for name in item.metadata)
    counts.subtract(Counter(name for item in former for name in item.metadata))
    connection.executemany(
        "INSERT INTO facet VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET items = items + excluded.items",
        [(name, count) for name, count in counts.items() if count],
    )
    connection.execute("DELETE FROM facet WHERE items = 0")


def columns(connection: sqlite3.Connection) -> list[str]:
    """The names of the metadata columns that any item has."""
    return [row[0] for row in connection.execute("SELECT name FROM facet ORDER BY name")]


def checksum_of(key: int, id: str, metadata: str | None) -> int:
    """The checksum of a row of the table `item`."""
    return zlib.crc32(f"{key}\0{id}\0{metadata or ''}".encode())


def _row(item: Item) -> tuple[int, str, str | None, int]:
    metadata = json.dumps(item.metadata, ensure_ascii=False) if item.metadata else None
    return item.key, item.id, metadata, checksum_of(item.key, item.id, metadata)


def _cells(items: Sequence[Item]) -> Iterator[tuple[str, str, int]]:
    return ((name, value, item.key) for item in items for name, value in item.metadata.items())
