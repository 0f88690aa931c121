"""A stage's arguments, messages and progress: a bar on a terminal, a line at intervals in a log.

Knows nothing of what is counted. Production code does not use it (see `nsh.system.progress`).
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

from tqdm import tqdm

from nsh.core.codes import code_bytes
from nsh.project.paths import Pair

T = TypeVar("T")

LOG_SECONDS = 15.0
"""Between two lines if standard error is a file or a pipe, so that progress does not fill it."""


def show_progress(iterable: Iterable[T], *, desc: str = "", total: int | None = None) -> Iterable[T]:
    """The `Progress` of the pipeline."""
    if sys.stderr.isatty():
        return tqdm(iterable, desc=desc, total=total)
    return tqdm(iterable, desc=desc, total=total, mininterval=LOG_SECONDS, miniters=1)


def take_no_arguments(description: str | None) -> None:
    """Answer --help with `description` and refuse other arguments, for a stage that reads params.yaml alone."""
    formatter = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=description, formatter_class=formatter).parse_args()


def take_pair(description: str) -> Pair:
    """Read the arguments --method and --bits of a stage that runs once for each pair.

    Raises:
        CodesError: there are no codes of this length.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--method", required=True, help="a block of params.yaml's methods, e.g. nsh")
    parser.add_argument("--bits", required=True, type=int, help="length of a code, e.g. 32")
    arguments = parser.parse_args()
    code_bytes(arguments.bits)
    return Pair(arguments.method, arguments.bits)


def say(message: str) -> None:
    """Print one line to standard output without breaking the progress bar."""
    tqdm.write(message)


def align(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
