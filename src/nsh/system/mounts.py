"""Mount points and types of file systems. Without /proc nothing is known."""

import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")


def is_mount_point(path: Path) -> bool:
    """Whether a file system, or a folder of one (bind mount), is mounted at this very folder."""
    return path.is_mount() or path.resolve() in _mounts()


def file_system(path: Path) -> str:
    """The kind of file system that a path lies on, as the kernel calls it ("ext4", "nfs4"); "" where it is not known.

    The path need not exist: its nearest parent that does counts.
    """
    mounts = _mounts()
    here = path.resolve()
    return next((mounts[place] for place in (here, *here.parents) if place in mounts), "")


def _mounts() -> dict[Path, str]:
    """Each mount point with its kind; of several at one place the last, which hides the others."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:  # not Linux
        return {}
    # 36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw  (proc(5); blanks are written \040)
    cut = (line.partition(" - ") for line in lines)
    return {Path(_unescape(before.split(" ")[4])): after.split(" ")[0] for before, _, after in cut}


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
