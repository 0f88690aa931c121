"""One Debian package fetched and unpacked by any user, without touching the system. Knows no data set.

apt reads the machine's sources, keys and proxies, but keeps its lists and caches in a private folder and runs
none of the system's hooks (they would write to system folders where root runs this).
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from nsh.core.errors import DownloadError

_PRIVATE = ("APT::Update::", "DPkg::", "Dir::State", "Dir::Cache", "Dir::Etc::parts", "Dir::Etc::main", "APT::Sandbox")
_SETTINGS = """
Dir::Etc::parts "{folder}/none";
Dir::Etc::main "{folder}/none.conf";
Dir::State "{folder}/state";
Dir::State::lists "{folder}/lists";
Dir::State::status "/var/lib/dpkg/status";
Dir::Cache "{folder}/cache";
Dir::Cache::archives "{folder}/cache/archives";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "15";
Acquire::https::Timeout "15";
"""
_MINUTES = 15


def fetch_package(name: str, *, into: Path) -> None:
    """Download the package `name` from the machine's Debian or Ubuntu sources and unpack its files into `into`.

    Raises:
        DownloadError: no apt here, no such package in the sources, or the sources cannot be reached.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise DownloadError("apt-get and dpkg-deb are not on this machine")
    with tempfile.TemporaryDirectory(prefix="nsh-apt-") as folder:
        private = Path(folder)
        for part in ("none", "state", "lists/partial", "cache/archives/partial"):
            (private / part).mkdir(parents=True)
        (private / "apt.conf").write_text(_configuration(private), encoding="utf-8")
        environment = {**os.environ, "APT_CONFIG": str(private / "apt.conf"), "LC_ALL": "C.UTF-8"}
        refresh = _run(["apt-get", "-q", "update"], cwd=private, environment=environment)
        fetched = _run(["apt-get", "-q", "download", name], cwd=private, environment=environment)
        packages = sorted(private.glob(f"{name}_*.deb"))
        if fetched.returncode or not packages:
            raise DownloadError(_complaint(fetched) or _complaint(refresh) or f"apt-get brought no package {name}")
        unpacked = _run(
            ["dpkg-deb", "-x", str(packages[-1]), str(into.absolute())], cwd=private, environment=environment
        )
        if unpacked.returncode:
            raise DownloadError(_complaint(unpacked) or f"dpkg-deb cannot unpack {name}")


def _configuration(folder: Path) -> str:
    """The machine's apt configuration without hooks and folders, then our own folders.

    It is given as the first file apt reads, and the others are pointed away from: hooks in them could not be undone.
    """
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    kept = [line for line in dump.splitlines() if not line.startswith(_PRIVATE)]
    return "\n".join(kept) + _SETTINGS.format(folder=folder)


def _run(command: list[str], *, cwd: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=60 * _MINUTES
        )
    except subprocess.TimeoutExpired as error:
        raise DownloadError(f"{command[0]} was still busy after {_MINUTES} minutes") from error


def _complaint(done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.startswith(("E:", "dpkg-deb: error"))]
    return f"apt says: {lines[-1]}" if lines else ""
