"""Where MLflow keeps runs and models, and a client for it that several processes may ask for at once.

Only explicit clients are used, never MLflow's global state: `MLFLOW_RUN_ID`, an active run or a default store of
another tool cannot reach in. It knows nothing of methods, metrics or what lies on disk.
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

# Without it the UI files our runs under evaluations of language models.
KIND = {"mlflow.experimentKind": "custom_model_development"}

# Only where the user has not said otherwise: MLflow's own values let a dead server hold a process up for minutes, and
# draw bars into files.
DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": str(sys.stderr.isatty()).lower(),
}


class UnreachableStoreError(TrackingError):
    """The store is named properly and does not answer: work goes on, `nsh track sync` mends it later."""


@dataclass(frozen=True)
class Store:
    """A client, and the experiment that the runs of one data set belong to."""

    client: "MlflowClient"
    experiment_id: str
    uri: str


def project_root(folder: Path) -> Path:
    """The folder whose store the work in `folder` belongs to.

    That is `folder` itself, but for a queued experiment: DVC runs it in a copy under .dvc/tmp/exps and deletes the
    copy, so its runs belong to the project above.
    """
    folder = folder.resolve()
    for parent in folder.parents:
        if parent.parts[-3:] == (".dvc", "tmp", "exps"):
            return parent.parents[2]
    return folder


def store_uri(folder: Path) -> str:
    """`MLFLOW_TRACKING_URI`, else the SQLite file mlflow.db of the project; a relative SQLite path starts there too.

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
    """Open the store, making database and experiment where they are missing.

    Args:
        folder: the project's folder, or a queued experiment's copy of it.
        experiment: what the runs belong to; `MLFLOW_EXPERIMENT_NAME` goes before it.

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
    """A client of the store at `uri`, for runs and models alike.

    A SQLite file that is missing is made; one that was moved learns where its files are now.

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
    """A client of the store that is there already, and its URI: to read must not leave a database in any folder.

    Raises:
        TrackingError: there is none.
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
    """Turn whatever MLflow and the libraries below it raise about the store into `UnreachableStoreError`."""
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
    """All that one of the client's searches finds: a server gives a page at a time, and no more than it likes."""
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
    """The file of a SQLite store, None for a server."""
    return Path(uri.removeprefix(SQLITE)) if uri.startswith(SQLITE) else None


def _artifact_root(uri: str) -> str | None:
    """Artifacts lie beside a SQLite file; a server knows its own place. MLflow itself would take the current folder."""
    database = _database(uri)
    return artifact_root(database) if database else None


def _locked(uri: str) -> AbstractContextManager[object]:
    """One process at a time makes and migrates a SQLite file: MLflow's migrations race (three of four fail)."""
    from filelock import FileLock

    database = _database(uri)
    if database is None:
        return nullcontext()
    database.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(f"{database}-lock", timeout=LOCK_TIMEOUT)


def _go_round_proxies(uri: str) -> None:
    """Let no proxy of the environment stand between us and a server on this machine: MLflow asks each it finds."""
    host = urlsplit(uri).hostname
    known = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    if is_loopback(host) and host not in known.split(","):
        os.environ["no_proxy"] = f"{known},{host}".lstrip(",")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:400]


def _hide_password(text: str, uri: str) -> str:
    login, at, _ = urlsplit(uri).netloc.rpartition("@")
    return text.replace(f"{login}@", "") if at else text
