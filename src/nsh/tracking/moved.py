"""Corrects the absolute URIs of MLflow's files in SQLite after a project was moved or copied.

MLflow has no command for this. Only URIs below the `mlartifacts` of another folder are changed; only
`nsh.tracking.store` gives such URIs to experiments.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

FOLDER = "mlartifacts"
EXPERIMENTS = ("experiments", "artifact_location")
FILES = (
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def artifact_root(database: Path) -> str:
    """URI of the folder, beside a SQLite file, with the files of its runs."""
    return (database.parent / FOLDER).as_uri()


def follow_move(database: Path) -> None:
    """Change every URI in `database` to the folder beside it, and print a note; URIs that fit stay.

    If the store was moved without its files, and these still exist, the URIs of the files stay.

    Raises:
        sqlite3.Error: the file is no database of MLflow, or cannot be written.
    """
    here = artifact_root(database)
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        found = connection.execute(
            f"SELECT DISTINCT artifact_location FROM experiments WHERE artifact_location LIKE '%/{FOLDER}'"
        )
        for (former,) in found.fetchall():
            if former == here or urlsplit(former).scheme != "file":
                continue
            left_behind = to_path(former).exists() and not to_path(here).exists()
            with connection:
                for table, column in (EXPERIMENTS,) if left_behind else (EXPERIMENTS, *FILES):
                    _replace(connection, table, column, former=former, here=here)
            print(
                f"note: the project was at {to_path(former).parent}; its MLflow runs now name {to_path(here)}",
                file=sys.stderr,
            )


def _replace(connection: sqlite3.Connection, table: str, column: str, *, former: str, here: str) -> None:
    connection.execute(
        f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR substr({column}, 1, ?) = ?",
        (here, len(former) + 1, former, len(former) + 1, f"{former}/"),
    )


def to_path(address: str) -> Path:
    """The path of a "file:" URI."""
    return Path(url2pathname(urlsplit(address).path))
