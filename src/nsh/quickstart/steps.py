"""Runs the commands that `nsh quickstart` consists of, and notes how long each took. Knows nothing of their work."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nsh.errors import TrainingError

INTERRUPTED = 128 + signal.SIGINT

_PATIENCE = 20.0  # seconds for DVC and its stage to end after Ctrl-C, which has reached both


class Steps:
    """The commands that were run, in their order.

    Attributes:
        done: each command line, and its seconds; None where there was nothing to do.
    """

    def __init__(self, nsh: Callable[[list[str]], int | None], *, say: Callable[[str], None]) -> None:
        """Take the command `nsh`, which returns its exit status, and what prints a line."""
        self.done: list[tuple[str, float | None]] = []
        self._nsh, self._say = nsh, say

    def skip(self, *words: str) -> None:
        """Note a command whose work is done already."""
        self._say(f"\n$ {shlex.join(words)}\ndone before")
        self.done.append((shlex.join(words), None))

    def nsh(self, *words: str) -> None:
        """Run `nsh` with these words, in this process. Images that cannot be decoded are reported, and no failure.

        Raises:
            KeyboardInterrupt: Ctrl-C.
            NshError: the command failed.
        """
        self._run(("nsh", *words), lambda: self._nsh(list(words)))

    def dvc(self, *words: str) -> None:
        """Run `dvc` with these words.

        Raises:
            KeyboardInterrupt: Ctrl-C.
            TrainingError: it failed.
        """
        line = ("dvc", *words)
        status = self._run(line, lambda: _run_dvc(words))
        if status:
            raise TrainingError(
                f"`{shlex.join(line)}` failed, and said why above: mend that and run the same command again"
            )

    def _run(self, line: tuple[str, ...], run: Callable[[], int | None]) -> int:
        self._say(f"\n$ {shlex.join(line)}")
        start = time.monotonic()
        status = run() or 0
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        self.done.append((shlex.join(line), time.monotonic() - start))
        return status


def _run_dvc(words: tuple[str, ...]) -> int:
    """The exit status of this environment's own DVC, whose stages find this environment's Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    process = subprocess.Popen([sys.executable, "-m", "dvc", *words], env=os.environ | {"PATH": path})
    try:
        return process.wait()
    except KeyboardInterrupt:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
        raise
    finally:
        process.terminate()  # a stage ends with its DVC
        process.wait()
