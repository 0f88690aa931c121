"""What a command shows and is sent: a bar that moves for eyes, nothing for logs and pipes; standard input.

The bar is rich's, which comes with typer: production has no tqdm. Knows nothing of what is counted or sent.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO, TypeVar

from nsh.errors import ConfigError

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds before a bar appears: what is done by then needs none."""


def standard_input() -> BinaryIO:
    """What is sent to the command, as bytes.

    Raises:
        ConfigError: nothing can be sent, because it is closed.
    """
    if sys.stdin is None:
        raise ConfigError("- means standard input, and that is closed: send a list to it, or name the items themselves")
    return sys.stdin.buffer


def show_progress(iterable: Iterable[T], *, desc: str = "", total: int | None = None) -> Iterable[T]:
    """The `Progress` of the commands: on standard error if that is a terminal, gone when the work is done."""
    return _bar(iterable, desc, total) if sys.stderr.isatty() else iterable


def _bar(iterable: Iterable[T], desc: str, total: int | None) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(desc, total=total)
    start, begun = time.monotonic(), False
    try:
        for item in iterable:
            yield item
            bar.advance(task)
            if not begun and time.monotonic() - start > PATIENCE:
                bar.start()
                begun = True
    finally:
        if begun:
            bar.stop()
