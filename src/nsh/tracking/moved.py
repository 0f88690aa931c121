"""A project that was moved or copied: MLflow keeps absolute addresses of its files in SQLite, and they are mended.

MLflow has no command for this. Only addresses below the `mlartifacts` of another folder are touched, which
`nsh.tracking.store` alone gives to experiments.
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
    """Address of the folder beside a SQLite file where the files of its runs lie."""
    return (database.parent / FOLDER).as_uri()


def follow_move(database: Path) -> None:
    """Make every address in `database` one beside it, and say so; nothing happens where they are.

    A store that was moved without its files keeps the addresses of the files, where those are still there.

    Raises:
        sqlite3.Error: the file is no database of MLflow's, or cannot be written.
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
    """The file or folder of a "file:" address."""
    return Path(url2pathname(urlsplit(address).path))
