"""Real apt against a package repository that the test makes on disk: no network, any user."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from nsh.data.debian import fetch_package
from nsh.errors import DownloadError
from nsh.system import fetch

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="this machine has no apt")
CONTROL = (
    "Package: tiny-set\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: x\n"
)
CONTENT = np.random.default_rng(0).bytes(5_000)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository of `build_repository`, the only one that apt knows."""
    folder = build_repository(tmp_path / "repository", hook_ran=tmp_path / "hook-ran")
    monkeypatch.setenv("APT_CONFIG", str(folder / "apt.conf"))
    return folder


def build_repository(folder: Path, *, hook_ran: Path) -> Path:
    """A repository with the package tiny-set, and an apt configuration that knows no other source."""
    (folder / "build/DEBIAN").mkdir(parents=True)
    (folder / "build/DEBIAN/control").write_text(CONTROL)
    (folder / "build/usr/share/tiny").mkdir(parents=True)
    (folder / "build/usr/share/tiny/file.gz").write_bytes(CONTENT)
    (folder / "build/DEBIAN").chmod(0o755)
    package = folder / "tiny-set_1.0_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", folder / "build", package], check=True, capture_output=True)
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    entry = f"{CONTROL}Filename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n"
    (folder / "Packages").write_text(entry)
    (folder / "sources.list").write_text(f"deb [trusted=yes] file:{folder} ./\n")
    hook = f'APT::Update::Post-Invoke:: "touch {hook_ran}";\n'
    (folder / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{folder}/sources.list";\nDir::Etc::sourceparts "{folder}/none";\n{hook}'
    )
    return folder


def test_a_package_is_unpacked(repository: Path, tmp_path: Path) -> None:
    fetch_package("tiny-set", into=tmp_path / "out", cache=tmp_path / "cache")
    assert (tmp_path / "out/usr/share/tiny/file.gz").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("cuts", "starts"), [([], [0]), ([1000, 2000], [0, 1000, 3000]), ([100, 0, 0, 0, 0], [0, 100, 100, 100, 100])]
)
def test_a_source_on_the_web_is_resumed_or_left_to_apt(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: list[int], starts: list[int]
) -> None:
    """After five attempts that bring nothing apt itself fetches the package."""
    asked = []
    cuts = list(cuts)

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            if ".deb" not in self.path:
                super().do_GET()
                return
            content = (repository / Path(self.path).name).read_bytes()
            start = int(self.headers.get("Range", "bytes=0-")[6:-1])
            asked.append((self.headers["User-Agent"], start))
            self.send_response(206 if start else 200)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start : start + cuts.pop(0)] if cuts else content[start:])

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=repository))
    (repository / "sources.list").write_text(f"deb [trusted=yes] http://127.0.0.1:{server.server_port} ./\n")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)
    try:
        fetch_package("tiny-set", into=tmp_path / "out", cache=tmp_path / "cache")
    finally:
        server.shutdown()
        server.server_close()
    assert (tmp_path / "out/usr/share/tiny/file.gz").read_bytes() == CONTENT
    assert [start for agent, start in asked if agent == "nsh"] == starts
    assert len(asked) == len(starts) + (starts[-1] == 100)


def test_the_target_may_be_relative(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fetch_package("tiny-set", into=Path("out"), cache=Path("cache"))
    assert (tmp_path / "out/usr/share/tiny/file.gz").exists()


def test_the_system_is_left_alone(repository: Path, tmp_path: Path) -> None:
    watched = [path for path in (Path("/var/lib/apt/lists"), Path("/var/cache/apt")) if path.is_dir()]
    before = {path: path.stat().st_mtime_ns for path in watched}
    fetch_package("tiny-set", into=tmp_path / "out", cache=tmp_path / "cache")
    assert {path: path.stat().st_mtime_ns for path in watched} == before
    assert not (tmp_path / "hook-ran").exists()


def test_an_unknown_package_is_one_clear_sentence(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="apt says: E: Unable to locate package no-such-set"):
        fetch_package("no-such-set", into=tmp_path / "out", cache=tmp_path / "cache")


def test_a_corrupt_package_is_refused(repository: Path, tmp_path: Path) -> None:
    package = repository / "tiny-set_1.0_all.deb"
    package.write_bytes(package.read_bytes()[:-1] + b"?")
    with pytest.raises(DownloadError, match="apt says: E:"):
        fetch_package("tiny-set", into=tmp_path / "out", cache=tmp_path / "cache")
    assert not (tmp_path / "out/usr").exists()


def test_without_apt_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DownloadError, match="apt-get and dpkg-deb are not on this machine"):
        fetch_package("tiny-set", into=tmp_path / "out", cache=tmp_path / "cache")


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can become another user")
def test_an_ordinary_user_needs_no_rights() -> None:
    # Not below tmp_path: every pytest session that starts shuts its common parent to other users again.
    with tempfile.TemporaryDirectory() as name:
        public = Path(name)
        public.chmod(0o755)
        repository, out = build_repository(public / "repository", hook_ran=public / "hook-ran"), public / "out"
        out.mkdir()
        os.chown(out, 65534, 65534)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c"]
        private = {"HOME": "/nonexistent", "TMPDIR": str(out), "PYTHONDONTWRITEBYTECODE": "1"}
        environment = {**os.environ, **private, "APT_CONFIG": str(repository / "apt.conf")}
        if subprocess.run([*command, "import nsh"], env=environment, capture_output=True, check=False).returncode:
            pytest.skip("this Python lies where only root can read")
        code = "import sys, pathlib, nsh.data.debian as d; p = pathlib.Path(sys.argv[1]); "
        code += "d.fetch_package('tiny-set', into=p, cache=p)"
        subprocess.run([*command, code, out], env=environment, check=True)
        assert (out / "usr/share/tiny/file.gz").read_bytes() == CONTENT
