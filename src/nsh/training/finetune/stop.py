"""Delays SIGTERM until the state is saved. Knows nothing of the work it interrupts."""

import signal
import sys
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Self


class Stop:
    """Notes SIGTERM while the block runs; the block calls `hand_on` when the state is saved.

    Only the main thread of a process receives signals: in another thread nothing is delayed.
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
        """Raise SIGTERM again with the handler from before the block, which normally ends the process.

        Raises:
            SystemExit: with the signal's exit status, if the former handler has not ended the process.
        """
        self.__exit__()
        signal.raise_signal(signal.SIGTERM)
        sys.exit(128 + signal.SIGTERM)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.asked = True
