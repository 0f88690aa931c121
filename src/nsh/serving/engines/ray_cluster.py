"""Connects this process to Ray: a new one on all cores of this machine, or a running cluster. Knows no work for it.

Ray waits for minutes where nobody answers, and reports to standard output. So an address is tried first, standard
output is closed to Ray, and what it raises becomes one sentence.
"""

import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from nsh.errors import ClusterError, ConfigError
from nsh.serving.cores import cpu_quota
from nsh.system.command import USAGE_EXIT_CODE

LOCAL = "local"
"""The address that means a Ray of this run's own, on this machine."""

PATIENCE = 5.0
"""Seconds that the head of a cluster has to answer, and between two questions while the block runs."""

LOST = 6
"""Questions in a row without an answer, after which the head is lost."""

_SILENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what Ray will do anyway, and warns of
}
"""Ray reports neither home nor to the terminal."""

_SHOWN = 300  # characters of Ray's reasons, which go on for pages
_NO_TOKEN = "InvalidAuthToken"  # in the text of what Ray's error was raised from
_WANTS_TOKEN = (
    "it wants a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN if this machine's ~/.ray/auth_token is another one"
)

_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What a client of HTTP/2 sends first, with empty settings; a server answers with its own (RFC 9113, section 3.4)."""
_SETTINGS = 4  # the type of a frame, its fourth byte


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect to Ray, and disconnect at the end; a local Ray ends with the block. The block cannot print.

    Args:
        address: `LOCAL`, or "host:port" of the head of a cluster that this machine belongs to.

    Raises:
        ConfigError: the address is neither.
        ClusterError: no Ray answers there, it does not accept this process, or it is lost while the block runs.

    If the head of a cluster is lost, the process may end instead, with the same sentence and exit code 2.
    """
    if address != LOCAL:
        _knock(address)
    for name, value in _SILENT.items():
        os.environ.setdefault(name, value)
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    ray.data.DataContext.get_current().enable_progress_bars = False
    local = {"num_cpus": cpu_quota(), "include_dashboard": False} if address == LOCAL else {}
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            with translated(address, Exception), _quiet():  # Ray raises a dozen kinds here, some plain `Exception`s
                ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **local)
            signal.signal(signal.SIGTERM, on_sigterm)  # Ray has set its own
            with translated(address), _watched(address):
                yield
    finally:
        ray.shutdown()


@contextmanager
def translated(address: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn Ray's own errors, and those of other kinds, into an error of ours."""
    from ray.exceptions import RayError

    try:
        yield
    except (RayError, *kinds) as error:
        raise _failed(address, _reason(error)) from error


def _failed(address: str, reason: str) -> ClusterError:
    return ClusterError(
        f"Ray at {address} failed ({reason}): what is written stays, run the same command again to go on"
    )


def _reason(error: BaseException) -> str:
    """What an error of Ray says; that a token is missing is in the error that it was raised from."""
    if _NO_TOKEN in f"{error} {error.__cause__}":
        return _WANTS_TOKEN
    return (" ".join(str(error).split()) or type(error).__name__)[:_SHOWN]


@contextmanager
def _watched(address: str) -> Iterator[None]:
    """End the process if the head is lost: Ray's C++ would end it after a minute, without a word."""
    ended = threading.Event()
    if address != LOCAL:
        threading.Thread(target=_watch, args=(address, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _watch(address: str, ended: threading.Event) -> None:
    unanswered = 0
    while not ended.wait(PATIENCE):
        try:
            _knock(address)
            unanswered = 0
        except ClusterError:
            unanswered += 1
        if unanswered == LOST:
            print(f"\nerror: {_failed(address, 'its head no longer answers')}", file=sys.stderr, flush=True)
            os._exit(USAGE_EXIT_CODE)  # the main thread may wait in Ray for ever


@contextmanager
def _quiet() -> Iterator[None]:
    """Close standard error to Ray's C++, which announces its level of logging there."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _knock(address: str) -> None:
    """Make sure that an RPC server, as Ray's is one, answers at the address."""
    host, port = _parse(address)
    try:
        with socket.create_connection((host, port), timeout=PATIENCE) as connection:
            if os.environ.get("RAY_USE_TLS") in ("1", "true", "True"):
                return
            connection.sendall(_HELLO)
            answer = connection.recv(9)
    except OSError as error:
        reason = str(error.strerror or error)
    else:
        if len(answer) > 3 and answer[3] == _SETTINGS:
            return
        reason = "something else answers"
    raise ClusterError(
        f"no Ray answers at {address} ({reason}): `ray status` on a machine of the cluster shows its address"
    )


def _parse(address: str) -> tuple[str, int]:
    found = re.fullmatch(r"\[?([^\s/\]\[]+?)\]?:(\d{1,5})", address)
    if found is None or not 0 < int(found[2]) < 65_536:
        raise ConfigError(
            f"found the address {address!r} of Ray: allowed are {LOCAL}, and HOST:PORT of the head of a cluster that "
            "this machine belongs to, such as 10.0.0.1:6379"
        )
    return found[1], int(found[2])
