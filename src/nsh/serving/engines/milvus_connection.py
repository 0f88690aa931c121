"""Connects to a Milvus server or to Milvus Lite, and turns their errors into ours. Knows no index.

pymilvus logs a traceback for every error, and repeats a failed call up to 75 times: its log is closed, and its calls
end after `PATIENCE`.
"""

import importlib.metadata
import logging
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nsh.errors import IndexBusy, IndexMissing, IndexReadOnly, IndexUnusable
from nsh.serving.engines.milvus_address import Address

if TYPE_CHECKING:
    from pymilvus import MilvusClient

PATIENCE = 10.0
"""Seconds that a call may take, its repetitions included."""

START = 60.0
"""Seconds that Milvus Lite has to start."""

KNOCK = 5.0
"""Seconds that a server has to accept a connection."""

_SHOWN = 300  # characters of a reason, which goes on with a stack of the server's


def connect(address: Address) -> "MilvusClient":
    """A client of the server, or of Milvus Lite, which starts as a process beside this one.

    Raises:
        IndexMissing: there is no file of Milvus Lite.
        IndexUnusable: nobody answers, or another process holds the file.
    """
    knock(address)
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    from pymilvus import MilvusClient

    with translated(address):
        return MilvusClient(address.uri if address.file is None else _start_lite(address), timeout=PATIENCE)


def knock(address: Address) -> None:
    """Make sure that there is something at the address, before pymilvus is imported and waits for it."""
    if address.file is not None:
        if not address.file.parent.is_dir():
            raise IndexMissing(f"there is no folder {address.file.parent}: check the path in {address.url}")
        return
    place = urlsplit(address.uri)
    try:
        socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=KNOCK).close()
    except OSError as error:
        raise _silent(address, str(error.strerror or error)) from error


def _start_lite(address: Address) -> str:
    """Start Milvus Lite, or use the one of this process; return where it listens."""
    missing = "pkg_resources" not in sys.modules
    if missing:
        sys.modules["pkg_resources"] = _versions()
    try:
        from milvus_lite.server_manager import server_manager_instance
    finally:
        if missing:
            del sys.modules["pkg_resources"]

    manager = logging.getLogger()
    before, manager.disabled = manager.disabled, True  # Lite logs its failures to the root
    try:
        started = server_manager_instance.start_and_get_uri(address.uri)
    except OSError as error:
        raise IndexReadOnly(
            f"{address.file} cannot be opened by Milvus Lite ({error.strerror}): check its rights"
        ) from error
    finally:
        manager.disabled = before
    if started is None:
        raise IndexBusy(f"{address.file} is open in another process, and Milvus Lite serves one: end it and try again")
    _await(Path(started.removeprefix("unix:")), address)
    return str(started)


def _await(listener: Path, address: Address) -> None:
    """Wait until Milvus Lite listens at its socket, because pymilvus does not."""
    end = time.monotonic() + START
    with socket.socket(socket.AF_UNIX) as knocking:
        while knocking.connect_ex(str(listener)):
            if time.monotonic() > end:
                raise _silent(address, f"Milvus Lite has not started within {START:g} s")
            time.sleep(0.02)


def _versions() -> ModuleType:
    """What Milvus Lite asks `pkg_resources` for, which setuptools had until version 82: the version of a package."""
    module: Any = ModuleType("pkg_resources")
    module.DistributionNotFound = importlib.metadata.PackageNotFoundError
    module.get_distribution = importlib.metadata.distribution
    return module  # type: ignore[no-any-return]


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """Turn errors of pymilvus and of its transport into `IndexUnusable`."""
    import grpc
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except (MilvusException, grpc.RpcError) as error:
        reason = " ".join(str(getattr(error, "message", error)).split())
        raise IndexUnusable(
            f"Milvus at {address.url} failed ({reason[:_SHOWN]}): see that its machines are up and try again"
        ) from error


def _silent(address: Address, reason: str) -> IndexUnusable:
    return IndexUnusable(f"no Milvus answers at {address.url} ({reason}): check the address, and that the server is up")
