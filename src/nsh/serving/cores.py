"""How many cores this process may use. Knows nothing of images, models or codes."""

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_V1_CONTROLLERS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


def cpu_quota(*, system: Path = Path("/")) -> int:
    """Cores this process may use, >= 1: the minimum of its affinity and the quotas of its control groups, rounded up.

    A container with `--cpus 2` on a machine of 64 cores has 2. `os.cpu_count()` would say 64, and the kernel would stop
    64 threads most of the time. The process's own control group and all above it are read, of version 1 and 2
    (`cpu.max` and `cpu.cfs_quota_us`: Linux, Documentation/admin-guide/cgroup-v2.rst and
    Documentation/scheduler/sched-bwc.rst).

    Args:
        system: the folder that has `proc` and `sys`.
    """
    limits = [quota for folder in _control_groups(system) for quota in (_quota_v2(folder), _quota_v1(folder)) if quota]
    return max(1, min([_affinity(), *(math.ceil(quota) for quota in limits)]))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _control_groups(system: Path) -> Iterator[Path]:
    """Folders that may hold this process's quota; in a container the group is often mounted as the root."""
    mount = system / "sys/fs/cgroup"
    try:
        lines = (system / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        roots = [mount / name for name in _V1_CONTROLLERS] if controllers else [mount]
        inner = PurePosixPath(group.lstrip("/"))
        yield from (root / part for root in roots for part in (inner, *inner.parents))


def _quota_v2(folder: Path) -> float | None:
    """Cores of `cpu.max`, "<quota or max> <period>" in microseconds; None without a limit."""
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None


def _quota_v1(folder: Path) -> float | None:
    """Cores of `cpu.cfs_quota_us` (-1: no limit)."""
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
