"""The processes of one run, its "ranks": which one this is, how they are started, and that they end together.

Within one machine `start_ranks` starts them; across machines `torchrun` does, and its environment variables, which
are the same ones, are found here. It knows nothing of what they compute.

Torch's own launcher is not used here, because it ends with status 1 and a traceback whatever a rank's status was, and
sends the other ranks SIGTERM at once, before they can say what they lost.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nsh.errors import ConfigError

NOTICE = 10.0  # seconds that the others have to find out for themselves, and say so, when a rank has failed
GRACE = 40.0  # seconds that a rank has to end after it was asked to
_LOOK = 0.2  # seconds between two looks at the ranks

Processes = Sequence["subprocess.Popen[bytes]"]


def this_rank() -> int:
    """Number of this process, from 0; rank 0 writes and reports."""
    return int(os.environ.get("RANK", "0"))


def count_ranks() -> int:
    """How many processes this one is one of."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def count_here(count: int) -> int:
    """How many of `count` ranks are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", count))


def are_started() -> bool:
    """Whether this process was started as a rank, by `start_ranks` or by torchrun."""
    return "RANK" in os.environ


def check_ranks(count: int, *, batch: int, device: str) -> None:
    """Make sure that `count` ranks can share a batch, and have a device each on this machine.

    Raises:
        ConfigError: they cannot.
    """
    if batch % count:
        raise ConfigError(f"found a batch of {batch} for {count} ranks: each needs an equal part of it")
    import torch  # slow to import, and who starts ranks does not compute

    kind, _, index = device.partition(":")
    here = count_here(count)
    if kind == "cuda" and count > 1 and (index or here > torch.cuda.device_count()):
        raise ConfigError(
            f"train.finetune.ranks: found {here} on this machine, compute.device {device}, and torch sees "
            f"{torch.cuda.device_count()} CUDA devices: choose cuda and a rank for each of them at most"
        )


def start_missing_ranks(count: int, *, batch: int | None, device: str) -> bool:
    """Start `count` ranks, unless this process is one of them or one is enough; return whether they did the work.

    Args:
        count: ranks that share a batch.
        batch: the batch of the method; None for one that learns in closed form, which one process does alone.
        device: "cpu", "cuda" or "cuda:<n>".

    Raises:
        ConfigError: the ranks cannot share a batch, or the devices.
        SystemExit: a rank failed.
    """
    if count == 1 or batch is None or are_started():
        return False
    check_ranks(count, batch=batch, device=device)
    start_ranks(count)
    return True


def start_ranks(count: int) -> None:
    """Run this very command again, `count` times, as the ranks of one run; return when all have ended well.

    When one has failed, and the others have not ended after `NOTICE`, or when this process is asked to end, they are
    asked to end and, after `GRACE`, made to.

    Raises:
        SystemExit: with the exit status of the first one that failed.
    """
    with _keep_port() as port:
        shared = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
        environment = {**os.environ, **shared, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        processes = [
            subprocess.Popen(
                [sys.executable, *sys.argv], env={**environment, "RANK": str(number), "LOCAL_RANK": str(number)}
            )
            for number in range(count)
        ]
        try:
            failed = _wait(processes)
        finally:
            _end(processes)
    if failed:
        sys.exit(failed if failed > 0 else 128 - failed)  # a process that a signal ended has minus its number


def _wait(processes: Processes) -> int:
    """The exit status of the first one that failed, or 0, when all have ended or should have."""
    limit, first = float("inf"), 0
    while time.monotonic() < limit:
        statuses = [process.poll() for process in processes]
        if None not in statuses:
            return first or next((status for status in statuses if status), 0)
        if not first and any(statuses):
            first, limit = next(status for status in statuses if status), time.monotonic() + NOTICE
        time.sleep(_LOOK)
    return first


def _end(processes: Processes) -> None:
    running = [process for process in processes if process.poll() is None]
    for process in running:
        process.terminate()
    limit = time.monotonic() + GRACE
    for process in running:
        try:
            process.wait(timeout=max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _keep_port() -> Iterator[int]:
    """A port for rank 0, which listens there once it has imported torch.

    Until then the system gives it to nobody who asks for any free port: it is bound, and to be reused.
    """
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]
