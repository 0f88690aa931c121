"""Checks a whole index: every page, every checksum, and that its tables belong together."""

import sqlite3
from pathlib import Path

import numpy as np

from nsh.core.codes import code_bytes
from nsh.serving.index import blocks, items, schema
from nsh.serving.index.database import FILE
from nsh.serving.index.refusals import damaged

# Each finds one mistake, if there is one.
_MISTAKES = {
    "an item is not what was written": "SELECT key FROM item WHERE checksum <> checksum_of(key, id, metadata)",
    "an item's metadata cannot be searched": (
        "SELECT item.key FROM item, json_each(item.metadata) AS cell WHERE NOT EXISTS "
        "(SELECT 1 FROM metadata WHERE name = cell.key AND value = cell.value AND metadata.key = item.key)"
    ),
    "metadata belong to no item": (
        "SELECT 1 WHERE (SELECT COUNT(*) FROM metadata) <> (SELECT COUNT(*) FROM item, json_each(item.metadata))"
    ),
    "the numbers of metadata are wrong": (
        "SELECT name, items FROM facet EXCEPT SELECT name, COUNT(*) FROM metadata GROUP BY name"
    ),
    "the names of metadata are incomplete": "SELECT name FROM metadata EXCEPT SELECT name FROM facet",
}


def check(connection: sqlite3.Connection, folder: Path) -> None:
    """Check everything in one transaction; writers wait for it.

    Raises:
        IndexDamaged: a part is not what was written.
    """
    (finding,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if finding != "ok":
        raise damaged(folder, f"{FILE}: {finding.splitlines()[-1]}")
    settings = schema.read_settings(connection, folder)
    connection.create_function("checksum_of", 3, items.checksum_of, deterministic=True)
    for finding, question in _MISTAKES.items():
        if connection.execute(f"{question} LIMIT 1").fetchone():
            raise damaged(folder, finding)
    held = [block.keys for block in blocks.read_changed(connection, since=-1, width=code_bytes(settings.bits))]
    keys = np.concatenate([np.empty(0, np.int64), *held])
    there = np.fromiter((row[0] for row in connection.execute("SELECT key FROM item ORDER BY key")), np.int64)
    if not np.array_equal(keys, there) or len(keys) != settings.items:
        raise damaged(folder, f"{len(there)} ids and {len(keys)} codes do not belong together")
