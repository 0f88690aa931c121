"""SIGTERM put off to a good moment. It knows nothing of what is interrupted."""

import signal
import sys
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Self


class Stop:
    """While the block runs, SIGTERM is noted; whoever runs the block hands it on when the state is safe.

    Only a process's main thread hears signals: in another one nothing is put off.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None
        self._hears = current_thread() is main_thread()

    def __enter__(self) -> Self:
        if self._hears:
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._hears:
            signal.signal(signal.SIGTERM, self._before)

    def hand_on(self) -> None:
        """Let SIGTERM do now what it did before the block, which is to end the process.

        Raises:
            SystemExit: with a signal's exit status, unless the handler that was there has done something else.
        """
        self.__exit__()
        signal.raise_signal(signal.SIGTERM)
        sys.exit(128 + signal.SIGTERM)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.asked = True
