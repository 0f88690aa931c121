"""How a command of this project ends, and how long it took. Knows nothing of what the command does."""

import errno
import hashlib
import json
import logging
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from nsh.core.errors import NshError
from nsh.core.files import atomic_path
from nsh.core.parent import end_with_dvc

USAGE_EXIT_CODE = 2
# Beside the outputs, never in them: a duration in an output would make every run differ.
TIMES = Path(".cache/nsh/times.jsonl")


def run_command(main: Callable[[], None]) -> None:
    """Run `main` and end the process as a command should.

    An `NshError` or a full disk prints one message and exits 2; Ctrl-C and SIGTERM exit 130 and 143 after `finally`
    blocks have run; any other exception is a bug and keeps its traceback.
    """
    signal.signal(signal.SIGTERM, _exit_on_signal)
    _quieten_pillow()
    try:
        main()
    except NshError as error:
        _fail(str(error))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        place = f" while writing {error.filename}" if error.filename else ""
        _fail(f"the disk is full{place}: free some space and run the same command again")
    except KeyboardInterrupt:
        print("interrupted: run the same command again to go on", file=sys.stderr)
        sys.exit(130)


def run_stage(main: Callable[[], None]) -> None:
    """`run_command`, then say how long the stage took, and note it for `nsh times`; ends with the DVC that began it."""

    def run() -> None:
        end_with_dvc()
        main()

    start = time.monotonic()
    run_command(run)
    stage, taken = " ".join([Path(sys.argv[0]).stem, *sys.argv[1:]]), time.monotonic() - start
    print(f"{taken:8.1f} s  {stage}")
    _note_time(stage, taken)


def _note_time(stage: str, seconds: float) -> None:
    """Add a line to `TIMES`; "params" names the copy of params.yaml that the stage ran with, beside it."""
    TIMES.parent.mkdir(parents=True, exist_ok=True)
    params = Path("params.yaml").read_bytes()
    name = f"{hashlib.sha256(params).hexdigest()[:16]}.yaml"
    with atomic_path(TIMES.with_name("params") / name) as partial:
        partial.write_bytes(params)
    with TIMES.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"stage": stage, "seconds": round(seconds, 1), "params": name}) + "\n")


def _quieten_pillow() -> None:
    """Keep remarks on damaged metadata off standard error: who runs a command is told which images are unreadable."""
    warnings.filterwarnings("ignore", module=r"PIL\.")
    logging.getLogger("PIL").addHandler(logging.NullHandler())


def _fail(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(USAGE_EXIT_CODE)


def _exit_on_signal(signum: int, frame: object) -> None:
    print(f"stopped by signal {signum}: run the same command again to go on", file=sys.stderr)
    sys.exit(128 + signum)
