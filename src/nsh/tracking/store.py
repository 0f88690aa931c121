"""MLflow's tracking store and a client for it; several processes may open it at once.

Only explicit clients are used, never MLflow's global state, so that `MLFLOW_RUN_ID`, an active run or another tool's
default store have no effect. Knows nothing of methods, metrics or results on disk.
"""

import errno
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from nsh.errors import TrackingError
from nsh.system.files import atomic_path
from nsh.system.loopback import is_loopback
from nsh.tracking.moved import artifact_root, follow_move

if TYPE_CHECKING:
    from mlflow.store.entities import PagedList
    from mlflow.tracking import MlflowClient

T = TypeVar("T")

URI_VARIABLE = "MLFLOW_TRACKING_URI"
EXPERIMENT_VARIABLE = "MLFLOW_EXPERIMENT_NAME"
LOCK_TIMEOUT = 300  # seconds; the first process fills a fresh database in about ten
SQLITE = "sqlite:///"

# Without it the UI lists our runs under evaluations of language models.
KIND = {"mlflow.experimentKind": "custom_model_development"}

# Defaults that the user's environment overrides: with MLflow's own values a process waits minutes for a dead server,
# and writes progress bars into files.
DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": str(sys.stderr.isatty()).lower(),
}


class UnreachableStoreError(TrackingError):
    """The store does not answer: work continues, and `nsh track sync` records the results later."""


@dataclass(frozen=True)
class Store:
    """A client, and the experiment of one data set's runs."""

    client: "MlflowClient"
    experiment_id: str
    uri: str


def project_root(folder: Path) -> Path:
    """The folder whose store is used in `folder`.

    This is `folder` itself, except for a queued experiment: DVC runs it in a copy below .dvc/tmp/exps and deletes the
    copy, so its runs belong to the project above.
    """
    folder = folder.resolve()
    for parent in folder.parents:
        if parent.parts[-3:] == (".dvc", "tmp", "exps"):
            return parent.parents[2]
    return folder


def store_uri(folder: Path) -> str:
    """`MLFLOW_TRACKING_URI`, else the project's SQLite file mlflow.db; relative SQLite paths start at the project.

    Raises:
        TrackingError: the variable names a folder, the store of MLflow 1 and 2.
    """
    uri = os.environ.get(URI_VARIABLE, "").strip() or f"{SQLITE}mlflow.db"
    if urlsplit(uri).scheme in ("", "file"):
        raise TrackingError(
            f"{URI_VARIABLE}={uri} is a folder, a store that MLflow 3 no longer writes: unset it to use the project's "
            f"mlflow.db, or name a database (sqlite:////path/mlflow.db) or a server (http://host:5000). "
            f"`mlflow migrate-filestore` moves old runs"
        )
    database = _database(uri)
    return f"{SQLITE}{project_root(folder) / database}" if database else uri


def open_store(folder: Path, *, experiment: str) -> Store:
    """Open the store; make database and experiment if they are missing.

    Args:
        folder: the project's folder, or a queued experiment's copy of it.
        experiment: the experiment's name; `MLFLOW_EXPERIMENT_NAME` takes precedence.

    Raises:
        TrackingError: `MLFLOW_TRACKING_URI` is no store, or the experiment was deleted.
        UnreachableStoreError: the store does not answer.
    """
    uri = store_uri(folder)
    name = os.environ.get(EXPERIMENT_VARIABLE, "").strip() or experiment
    client = open_client(uri)
    with plain_errors(uri), _locked(uri):
        return Store(client, _find_experiment(client, name, artifacts=_artifact_root(uri)), uri)


def open_client(uri: str) -> "MlflowClient":
    """A client of the store at `uri`, for runs and models.

    A missing SQLite file is made; in a moved one the paths of files are corrected.

    Raises:
        UnreachableStoreError: the store does not answer.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    _go_round_proxies(uri)
    from mlflow.tracking import MlflowClient

    # A fresh database reports each of some fifty migrations.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with plain_errors(uri), _locked(uri):
        database = _database(uri)
        if database and database.is_dir():  # MLflow would try again for minutes
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(database))
        if database and not database.exists():
            with atomic_path(database) as partial:  # a process killed between two migrations leaves no half database
                MlflowClient(tracking_uri=f"{SQLITE}{partial}")
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        if database:
            follow_move(database)
        return client


def existing_client(folder: Path) -> tuple["MlflowClient", str]:
    """A client of an existing store, and its URI: reading must not make a database.

    Raises:
        TrackingError: there is no store.
    """
    uri = store_uri(folder)
    database = _database(uri)
    if database and not database.exists():
        raise TrackingError(
            f"there is no MLflow store at {database}: go to the project's folder, `make repro` fills it"
        )
    return open_client(uri), uri


@contextmanager
def plain_errors(uri: str) -> Iterator[None]:
    """Turn errors of MLflow and its libraries about the store into `UnreachableStoreError`."""
    import sqlite3

    from filelock import Timeout
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, RequestException, SQLAlchemyError, Timeout, OSError, sqlite3.Error) as error:
        raise UnreachableStoreError(_hide_password(f"MLflow at {uri} failed: {_first_line(error)}", uri)) from error


def all_pages(search: Callable[..., "PagedList[T]"], *arguments: Any, **keywords: Any) -> list[T]:
    """All results of a client's search; a server gives one page at a time."""
    page = search(*arguments, **keywords)
    found = list(page)
    while page.token:
        page = search(*arguments, **keywords, page_token=page.token)
        found += page
    return found


def _find_experiment(client: "MlflowClient", name: str, *, artifacts: str | None) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location=artifacts, tags=KIND))
        except MlflowException:  # another process, on a server that our lock does not reach, was faster
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        raise TrackingError(
            f"the experiment {name} is deleted: `mlflow experiments restore --experiment-id {found.experiment_id}` "
            f"brings it back, {EXPERIMENT_VARIABLE} names another"
        )
    return str(found.experiment_id)


def _database(uri: str) -> Path | None:
    """The file of a SQLite store; None for a server."""
    return Path(uri.removeprefix(SQLITE)) if uri.startswith(SQLITE) else None


def _artifact_root(uri: str) -> str | None:
    """The folder of artifacts, beside a SQLite file; None for a server. MLflow's default is the current folder."""
    database = _database(uri)
    return artifact_root(database) if database else None


def _locked(uri: str) -> AbstractContextManager[object]:
    """Let one process at a time make and migrate a SQLite file: parallel migrations fail (three of four)."""
    from filelock import FileLock

    database = _database(uri)
    if database is None:
        return nullcontext()
    database.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(f"{database}-lock", timeout=LOCK_TIMEOUT)


def _go_round_proxies(uri: str) -> None:
    """Use no proxy for a server on this machine; MLflow would use those of the environment."""
    host = urlsplit(uri).hostname
    known = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    if is_loopback(host) and host not in known.split(","):
        os.environ["no_proxy"] = f"{known},{host}".lstrip(",")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:400]


def _hide_password(text: str, uri: str) -> str:
    login, at, _ = urlsplit(uri).netloc.rpartition("@")
    return text.replace(f"{login}@", "") if at else text
