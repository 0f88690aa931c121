"""A command's progress bar, on a terminal only, and its standard input. Knows nothing of what is counted or read.

The bar is rich's, which typer requires: production has no tqdm.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO, TypeVar

from nsh.errors import ConfigError

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds before a bar appears, so that short work shows none."""


def standard_input() -> BinaryIO:
    """Standard input, as bytes.

    Raises:
        ConfigError: standard input is closed.
    """
    if sys.stdin is None:
        raise ConfigError("- means standard input, and that is closed: send a list to it, or name the items themselves")
    return sys.stdin.buffer


def show_progress(iterable: Iterable[T], *, desc: str = "", total: int | None = None) -> Iterable[T]:
    """The `Progress` of the commands: a bar on standard error if that is a terminal, removed at the end."""
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
