"""The one tree of errors a user may meet, and the way a command ends.

    NshError
    ├── ConfigError          params.yaml or an argument is wrong
    ├── DataError            a data set, folder, split or embedding is not what it must be
    │   ├── DownloadError    a file could not be fetched, or is not the file it should be
    │   └── UnreadableImage  one image cannot be decoded
    ├── TrainingError        a method cannot be trained on this data
    │   └── NonFiniteLoss    the loss became NaN or infinite
    ├── ExportError          the ONNX file does not do what the torch network does
    ├── CodesError           codes, encoder and index do not belong together
    └── TrackingError        MLflow cannot record or find what was asked for

A message says what was found, what was allowed, and what to do.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable


class NshError(Exception):
    """Base of every error that is the user's to mend; shown without a traceback."""


class ConfigError(NshError):
    """params.yaml or a command's argument is wrong."""


class DataError(NshError):
    """A data set, folder, split or embedding is not what it must be."""


class DownloadError(DataError):
    """A file could not be fetched, or is not the file it should be."""


class UnreadableImage(DataError):
    """One image cannot be decoded."""


class TrainingError(NshError):
    """A method cannot be trained on this data with these parameters."""


class NonFiniteLoss(TrainingError):
    """The loss became NaN or infinite."""


class ExportError(NshError):
    """The ONNX file does not do what the torch network does."""


class CodesError(NshError):
    """Codes, encoder and index do not belong together."""


class TrackingError(NshError):
    """MLflow cannot record or find what was asked for."""


USAGE_EXIT_CODE = 2


def run_command(main: Callable[[], None]) -> None:
    """Run `main` and end the process as a command should.

    An `NshError` or a full disk prints one sentence and exits 2; Ctrl-C and SIGTERM exit 130 and 143
    after `finally` blocks have run; any other exception is a bug and keeps its traceback.
    """
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
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


def _fail(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(USAGE_EXIT_CODE)


def _exit_on_sigterm(signum: int, frame: object) -> None:
    print(f"stopped by signal {signum} (pid {os.getpid()})", file=sys.stderr)
    sys.exit(128 + signum)
