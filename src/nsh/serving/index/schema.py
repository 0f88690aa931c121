"""The tables of an index, and its settings. Knows nothing of codes or searching.

    setting    schema, bits, encoder_identity; version and items change with every change; a checksum of all
    item       key (ascending in the order of insertion), id, metadata (a JSON object, or NULL), checksum
    metadata   one row for each item and column: for filters alone
    facet      the metadata columns, and how many items have each
    block      the codes of `blocks.KEYS` consecutive keys, and the version that changed them last

A row of `item` and of `block` has its checksum, which every reader compares: SQLite itself notices a damaged tree, but
no damaged value. `integrity.check` compares everything else.
"""

import json
import sqlite3
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from nsh.errors import IndexUnusable
from nsh.serving.index.refusals import damaged, outdated

SCHEMA = 2

_TABLES = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE item (key INTEGER PRIMARY KEY, id TEXT NOT NULL, metadata TEXT, checksum INTEGER NOT NULL);
CREATE UNIQUE INDEX item_by_id ON item (id);
CREATE TABLE metadata (
    name TEXT NOT NULL, value TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (name, value, key)) WITHOUT ROWID;
CREATE TABLE facet (name TEXT PRIMARY KEY, items INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE block (
    number INTEGER PRIMARY KEY, version INTEGER NOT NULL, checksum INTEGER NOT NULL,
    places BLOB NOT NULL, codes BLOB NOT NULL);
CREATE INDEX block_by_version ON block (version);
"""


class Settings(NamedTuple):
    """The settings of an index in one version."""

    bits: int
    encoder_identity: str
    version: int  # 0 for a new index, plus 1 for every change
    items: int


def create(connection: sqlite3.Connection, settings: Settings) -> None:
    """Make the tables."""
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    put_settings(connection, settings)


def put_settings(connection: sqlite3.Connection, settings: Settings) -> None:
    """Replace the settings."""
    values = {"schema": str(SCHEMA)} | {name: str(value) for name, value in settings._asdict().items()}
    values["checksum"] = str(_checksum(values))
    connection.executemany("INSERT OR REPLACE INTO setting VALUES (?, ?)", values.items())


def read_settings(connection: sqlite3.Connection, folder: Path) -> Settings:
    """The settings of the version that this transaction sees.

    Raises:
        IndexUnusable: another version of this project wrote the index, or it is damaged.
    """
    values = dict(connection.execute("SELECT name, value FROM setting"))
    if (schema := values.get("schema")) == "1":
        raise outdated(folder)
    if schema is not None and schema.isdecimal() and int(schema) > SCHEMA:
        raise IndexUnusable(
            f"{folder} has schema {schema}, and this version reads {SCHEMA}: use the version of nsh that wrote it"
        )
    if values.pop("checksum", None) != str(_checksum(values)):
        raise damaged(folder, "its settings are not what was written")
    return Settings(int(values["bits"]), values["encoder_identity"], int(values["version"]), int(values["items"]))


def read_version(connection: sqlite3.Connection) -> int:
    """The number of the version that this transaction sees.

    Raises:
        sqlite3.DatabaseError: there is none.
    """
    row = connection.execute("SELECT value FROM setting WHERE name = 'version'").fetchone()
    if row is None or not row[0].isdecimal():
        raise sqlite3.DatabaseError("it has no version")
    return int(row[0])


def _checksum(values: Mapping[str, str]) -> int:
    return zlib.crc32(json.dumps(sorted(values.items())).encode())
