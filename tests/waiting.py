"""What tests wait for: an event, never a length of time. Also for the processes that tests start."""

import signal
import time
from collections.abc import Callable

PATIENCE = 600
"""Seconds after which what was waited for never comes: many times what a busy machine of one core needs."""


def wait_until(condition: Callable[[], object]) -> None:
    """Return once `condition()` holds."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, f"waited {PATIENCE} seconds in vain"
        time.sleep(0.01)


def await_sigterm(line: str) -> None:
    """Print `line` and go no further until SIGTERM has come: whoever sends it upon `line` is never too late for it.

    What the process does about SIGTERM it does in here; another signal takes its usual way.
    """
    handler, came = signal.getsignal(signal.SIGTERM), []

    def note(number, frame):
        came.append(number)
        handler(number, frame)

    signal.signal(signal.SIGTERM, note)
    print(line, flush=True)
    wait_until(lambda: came)
    signal.signal(signal.SIGTERM, handler)
