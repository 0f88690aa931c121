"""One Debian package fetched and unpacked by any user, without touching the system. Knows no data set.

apt reads the machine's sources, keys and proxies, but keeps its lists and caches in a private folder and runs
none of the system's hooks (they would write to system folders where root runs this).
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from nsh.errors import DownloadError
from nsh.system.fetch import download
from nsh.system.progress import Progress, no_progress

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
_ENTRY = re.compile(r"'(?P<url>[^']+)' \S+ (?P<bytes>\d+) SHA256:(?P<sha256>[0-9a-f]{64})")
_MINUTES = 15


def fetch_package(name: str, *, into: Path, cache: Path, progress: Progress = no_progress) -> None:
    """Download the package `name` from the machine's Debian or Ubuntu sources and unpack its files into `into`.

    apt finds the address and the digest in its signed lists; the file itself is fetched by `nsh.system.fetch`, since
    `apt-get download` does not resume, or by apt where that fails (other proxies, sources on a disk).

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
        refresh = _run(["apt-get", "-q", "update"], folder=private)
        found = _run(["apt-get", "-qq", "download", "--print-uris", name], folder=private)
        entry = _ENTRY.match(found.stdout)
        if found.returncode or entry is None:
            raise DownloadError(_complaint(refresh) or _complaint(found) or f"apt-get knows no package {name}")
        package = _fetch(entry, cache=cache, progress=progress) or _fetch_by_apt(name, folder=private)
        unpacked = _run(["dpkg-deb", "-x", str(package.absolute()), str(into.absolute())], folder=private)
        if unpacked.returncode:
            raise DownloadError(_complaint(unpacked) or f"dpkg-deb cannot unpack {name}")


def _fetch(entry: re.Match[str], *, cache: Path, progress: Progress) -> Path | None:
    """The file by our own download, or None where that cannot have it."""
    if not entry["url"].startswith(("http://", "https://")):
        return None
    try:
        digest = f"sha256:{entry['sha256']}"
        return download(entry["url"], cache=cache, digest=digest, limit=int(entry["bytes"]), progress=progress)
    except DownloadError:
        return None


def _fetch_by_apt(name: str, *, folder: Path) -> Path:
    fetched = _run(["apt-get", "-q", "download", name], folder=folder)
    packages = sorted(folder.glob(f"{name}_*.deb"))
    if fetched.returncode or not packages:
        raise DownloadError(_complaint(fetched) or f"apt-get brought no package {name}")
    return packages[-1]


def _configuration(folder: Path) -> str:
    """The machine's apt configuration without hooks and folders, then our own folders.

    It is given as the first file apt reads, and the others are pointed away from: hooks in them could not be undone.
    """
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    kept = [line for line in dump.splitlines() if not line.startswith(_PRIVATE)]
    return "\n".join(kept) + _SETTINGS.format(folder=folder)


def _run(command: list[str], *, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "LC_ALL": "C.UTF-8"}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60 * _MINUTES
        )
    except subprocess.TimeoutExpired as error:
        raise DownloadError(f"{command[0]} was still busy after {_MINUTES} minutes") from error


def _complaint(done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.startswith(("E:", "dpkg-deb: error"))]
    return f"apt says: {lines[-1]}" if lines else ""
