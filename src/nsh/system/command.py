"""Runs the commands of this project: exit statuses, error messages, durations. Knows nothing of their work."""

import errno
import json
import logging
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from nsh.errors import NshError
from nsh.system.files import sha256_bytes, write_bytes
from nsh.system.folders import CACHE
from nsh.system.parent import end_with_dvc
from nsh.system.places import explain

USAGE_EXIT_CODE = 2
READER_GONE_EXIT_CODE = 128 + signal.SIGPIPE
"""The exit status of a program whose output nobody reads any more, as in a pipe to `head`."""

# Beside the outputs, never in them: a duration in an output would make every run differ.
TIMES = CACHE / "times.jsonl"


def run_command(main: Callable[[], None]) -> None:
    """Run `main` and end the process as a command should.

    An `NshError`, and what the operating system refuses about a file or folder, prints one message and exits 2. Ctrl-C
    exits 130, SIGTERM 143, and a reader of the output that has gone away 141, after `finally` blocks have run. Any
    other exception is a bug and keeps its traceback.
    """
    signal.signal(signal.SIGTERM, _exit_on_signal)
    _quieten_pillow()
    try:
        _run(main)
    except NshError as error:
        _fail(str(error))
    except (OSError, RuntimeError) as error:
        fault = error if isinstance(error, OSError) else _loop_behind(error)
        sentence = explain(fault) if fault else None
        if sentence is None:
            raise
        _fail(sentence)
    except KeyboardInterrupt:
        print("interrupted: run the same command again to go on", file=sys.stderr)
        sys.exit(130)


def _run(main: Callable[[], None]) -> None:
    try:
        main()
    except BrokenPipeError:
        if _reader_is_gone():
            sys.exit(READER_GONE_EXIT_CODE)
        raise
    except SystemExit as end:  # typer ends so, with a code of its own
        if isinstance(end.__context__, BrokenPipeError):
            sys.exit(READER_GONE_EXIT_CODE)
        if end.__context__ and isinstance(end.__context__.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from end
        raise
    finally:
        _flush()


def _loop_behind(error: RuntimeError) -> OSError | None:
    """The loop of links that `Path.resolve` met; until Python 3.12 it raises a RuntimeError in place of the OSError."""
    cause = error.__context__
    return cause if isinstance(cause, OSError) and cause.errno == errno.ELOOP else None


def _reader_is_gone() -> bool:
    """Whether the broken pipe is our own output, not another pipe or connection."""
    output = select.poll()
    output.register(sys.stdout, 0)
    return bool(output.poll(0))


def _flush() -> None:
    """Flush the output while a failure can still be reported; Python itself flushes only at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(READER_GONE_EXIT_CODE)
        raise


def run_stage(main: Callable[[], None]) -> None:
    """`run_command`, which also says how long the stage took and notes it for `nsh times`.

    The stage ends with the DVC that began it.
    """

    def timed() -> None:
        end_with_dvc()
        start = time.monotonic()
        main()
        stage, taken = " ".join([Path(sys.argv[0]).stem, *sys.argv[1:]]), time.monotonic() - start
        print(f"{taken:8.1f} s  {stage}")
        _note_time(stage, taken)

    run_command(timed)


def _note_time(stage: str, seconds: float) -> None:
    """Add a line to `TIMES`; "params" names the copy of params.yaml that the stage ran with, beside it."""
    TIMES.parent.mkdir(parents=True, exist_ok=True)
    params = Path("params.yaml").read_bytes()
    name = f"{sha256_bytes(params)[:16]}.yaml"
    write_bytes(TIMES.with_name("params") / name, params)
    with TIMES.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"stage": stage, "seconds": round(seconds, 1), "params": name}) + "\n")


def _quieten_pillow() -> None:
    """Silence warnings of damaged metadata: commands report unreadable images themselves."""
    warnings.filterwarnings("ignore", module=r"PIL\.")
    logging.getLogger("PIL").addHandler(logging.NullHandler())


def _fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(USAGE_EXIT_CODE)


def _exit_on_signal(signum: int, frame: object) -> None:
    print(f"stopped by signal {signum}: run the same command again to go on", file=sys.stderr)
    sys.exit(128 + signum)
