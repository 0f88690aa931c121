"""The process of a run, and whether it has ended. Knows nothing of MLflow."""

import os
import socket
import uuid
from dataclasses import astuple, dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """Identifies a process among all processes of all machines and times."""

    host: str  # name and network address: several machines may share a server
    boot: str  # the kernel's id of this boot
    namespace: str  # process ids of a container are valid only inside it
    pid: int
    start: str  # clock ticks since boot: process ids are reused

    def __str__(self) -> str:
        return "/".join(map(str, astuple(self)))


def this_process() -> str:
    """This process, in the form for `has_ended`; empty without /proc."""
    pid = os.getpid()
    return str(Process(*_where(), pid, _start_of(pid))) if PROC.exists() else ""


def has_ended(process: str) -> bool:
    """Whether `process`, from `this_process`, has certainly ended; False if this cannot be known here."""
    parts = process.split("/")
    if len(parts) != 5 or not PROC.exists():
        return False
    host, boot, namespace, pid, start = parts
    here = _where()
    if host != here[0]:
        return False
    if boot != here[1]:
        return True
    return namespace == here[2] and _start_of(int(pid)) != start


def _where() -> tuple[str, str, str]:
    boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}-{uuid.getnode():x}", boot, (PROC / "self/ns/pid").readlink().name


def _start_of(pid: int) -> str:
    """Field 22 of /proc/<pid>/stat (man proc_pid_stat); empty if there is no such process or it is a zombie."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
