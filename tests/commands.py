"""Runs a command in the test's own process: the code that its user starts, without the seconds that a start takes.

A signal, a pipe, a terminal, what is imported and what processes share need a process of their own.
"""

import io
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

import pytest

from nsh.cli import main


def run_nsh(*words: object, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """`nsh` with these words: its exit status, and what it printed."""
    return _run(main, "nsh", *words, stdin=stdin)


def run_script(script: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    """`python <script>` with these words: its exit status, and what it printed."""
    return _run(partial(runpy.run_path, str(script), run_name="__main__"), script, *words)


def _run(program: Callable[[], object], *words: object, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    arguments, output, errors = [str(word) for word in words], io.StringIO(), io.StringIO()
    handler, status = signal.getsignal(signal.SIGTERM), 0
    with pytest.MonkeyPatch.context() as patch, chdir("."), redirect_stdout(output), redirect_stderr(errors):
        patch.setattr(sys, "argv", arguments)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        try:
            program()
        except SystemExit as end:
            status = end.code or 0
        finally:
            signal.signal(signal.SIGTERM, handler)  # a command has set its own
    return subprocess.CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())
