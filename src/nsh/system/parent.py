"""Ends a process when the one that started it ends, such as a stage with its DVC. Knows nothing of its work.

DVC hands a signal on to nobody: without this, SIGTERM to `dvc repro` (a scheduler's, a closed IDE's) would leave a
training behind that writes into outputs which the next `dvc repro` makes too.
"""

import ctypes
import os
import signal
import sys

PARENT = os.getppid()  # at import: whoever started this process
DVC_ROOT = "DVC_ROOT"  # in the environment of what DVC starts
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with_dvc() -> None:
    """`end_with_parent` for a stage that DVC started; any other process may outlive its parent (nohup).

    The stage must be DVC's own child: some shells (Debian's sh) stay between the two, so every `cmd` in dvc.yaml begins
    with `exec`.
    """
    if DVC_ROOT in os.environ:
        end_with_parent()


def end_with_parent() -> None:
    """Have the kernel send this process SIGTERM when the one that started it ends, even by SIGKILL; on Linux alone.

    Raises:
        SystemExit: that one has ended already, while this process was starting.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != PARENT or _is_adopted():
        print("stopped: the process that started this one has ended", file=sys.stderr)
        sys.exit(128 + signal.SIGTERM)


def _is_adopted() -> bool:
    """Whether the parent is not the one that started this process: it is of another session, and this leads none."""
    session = os.getsid(0)
    return session != os.getpid() and session != os.getsid(os.getppid())
