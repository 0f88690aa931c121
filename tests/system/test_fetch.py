"""Downloads against a real HTTP server on this machine that behaves badly on demand."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from tests.ports import keep_port

from nsh.errors import DownloadError
from nsh.system import fetch
from nsh.system.loopback import is_loopback

CONTENT = np.random.default_rng(0).bytes(3_000_000)
DIGEST = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
LIMIT = 10_000_000


@dataclass
class Web:
    """What the server does, and what it was asked."""

    address: str = ""
    content: bytes = CONTENT
    cut_after: list[int] = field(default_factory=list)  # bytes to send before hanging up, one an answer
    status: list[int] = field(default_factory=list)  # answers in place of the file
    knows_ranges: bool = True
    shifted: int = 0  # how far beside the range its answers begin
    announces_length: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)


@pytest.fixture
def web() -> Iterator[Web]:
    state = Web()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            state.requests.append((self.path, self.headers.get("Range")))
            if state.status:
                self.send_error(state.status.pop(0))
                return
            start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if state.knows_ranges else 0
            if start and start >= len(state.content):
                self.send_error(416)
                return
            start += state.shifted if start else 0
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(state.content) - 1}/{len(state.content)}")
            body = state.content[start:]
            if state.announces_length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: state.cut_after.pop(0)] if state.cut_after else body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def get(web: Web, cache: Path, *, digest: str = DIGEST, limit: int = LIMIT) -> Path:
    return fetch.download(f"{web.address}/some/file.bin?x=1", cache=cache, digest=digest, limit=limit)


def test_a_file_arrives_whole_under_its_own_name(web: Web, tmp_path: Path) -> None:
    path = get(web, tmp_path / "new")
    assert path == tmp_path / "new" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == ["file.bin"]


def test_what_is_there_is_not_fetched_again(web: Web, tmp_path: Path) -> None:
    get(web, tmp_path)
    get(web, tmp_path)
    assert len(web.requests) == 1


@pytest.mark.parametrize("digest", [DIGEST[:15], "md5:" + hashlib.md5(CONTENT).hexdigest()])
def test_digests_may_be_shortened_or_md5(web: Web, tmp_path: Path, digest: str) -> None:
    assert get(web, tmp_path, digest=digest).read_bytes() == CONTENT


def test_a_cut_connection_goes_on_where_it_stopped(web: Web, tmp_path: Path) -> None:
    web.cut_after = [1_000_000, 500_000]
    assert get(web, tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in web.requests] == [None, "bytes=1000000-", "bytes=1500000-"]


def test_a_later_run_goes_on_where_the_first_stopped(web: Web, tmp_path: Path) -> None:
    (tmp_path / "file.bin.partial").write_bytes(CONTENT[:2_500_000])
    assert get(web, tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in web.requests] == ["bytes=2500000-"]


def test_a_complete_partial_file_needs_no_more_bytes(web: Web, tmp_path: Path) -> None:
    (tmp_path / "file.bin.partial").write_bytes(CONTENT)
    assert get(web, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("left", [b"x" * 1_000_000, b"x" * 4_000_000])
def test_the_beginning_of_another_file_is_thrown_away(web: Web, tmp_path: Path, left: bytes) -> None:
    (tmp_path / "file.bin.partial").write_bytes(left)
    assert get(web, tmp_path).read_bytes() == CONTENT
    assert web.requests[-1][1] is None


def test_a_server_without_ranges_starts_again(web: Web, tmp_path: Path) -> None:
    web.knows_ranges = False
    web.cut_after = [1_000_000]
    assert get(web, tmp_path).read_bytes() == CONTENT


def test_a_server_without_lengths_is_understood(web: Web, tmp_path: Path) -> None:
    web.announces_length = False
    assert get(web, tmp_path).read_bytes() == CONTENT


def test_a_connection_that_never_gets_further_is_given_up_and_kept(web: Web, tmp_path: Path) -> None:
    web.cut_after = [1_000_000] + [0] * 20
    with pytest.raises(DownloadError, match=r"breaks off at 1000000 bytes .* run the same command again"):
        get(web, tmp_path)
    assert len(web.requests) == 5
    assert (tmp_path / "file.bin.partial").stat().st_size == 1_000_000
    assert not (tmp_path / "file.bin").exists()


def test_a_busy_server_is_asked_again(web: Web, tmp_path: Path) -> None:
    web.status = [503, 500, 429]
    assert get(web, tmp_path).read_bytes() == CONTENT


def test_what_is_not_there_is_not_asked_for_twice(web: Web, tmp_path: Path) -> None:
    web.status = [404]
    with pytest.raises(DownloadError, match="the server answers 404 Not Found"):
        get(web, tmp_path)
    assert len(web.requests) == 1


def test_other_bytes_than_expected_are_refused_and_removed(web: Web, tmp_path: Path) -> None:
    web.content = b"y" * len(CONTENT)
    with pytest.raises(DownloadError, match=rf"found sha256:{hashlib.sha256(web.content).hexdigest()}, allowed is"):
        get(web, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_wrong_range_is_refused(web: Web, tmp_path: Path) -> None:
    (tmp_path / "file.bin.partial").write_bytes(CONTENT[:1000])
    web.shifted = 5
    with pytest.raises(DownloadError, match="another part than the one from byte 1000"):
        get(web, tmp_path)


@pytest.mark.parametrize("announces_length", [True, False])
def test_more_than_the_limit_is_refused(web: Web, tmp_path: Path, announces_length: bool) -> None:
    web.announces_length = announces_length
    with pytest.raises(DownloadError, match="allowed"):
        get(web, tmp_path, limit=2_000_000)
    assert not (tmp_path / "file.bin").exists()


def test_progress_sees_every_mebibyte(web: Web, tmp_path: Path) -> None:
    seen = []

    def progress(iterable, *, desc="", total=None):
        seen.append((desc, total))
        for block in iterable:
            seen.append(len(block))
            yield block

    fetch.download(f"{web.address}/file.bin", cache=tmp_path, digest=DIGEST, limit=LIMIT, progress=progress)
    assert seen[0] == ("file.bin (MiB)", 3)
    assert sum(seen[1:]) == len(CONTENT)


def test_nobody_listening_is_one_clear_sentence(tmp_path: Path) -> None:
    refused = pytest.raises(
        DownloadError, match=r"cannot be reached \(Connection refused\): check the network, or set http"
    )
    with keep_port() as port, refused:
        fetch.download(f"http://127.0.0.1:{port}/file.bin", cache=tmp_path, digest=DIGEST, limit=LIMIT)


def test_silence_is_given_up_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(fetch, "_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/file.bin"
        with pytest.raises(DownloadError, match="no answer in 0 seconds"):
            fetch.download(url, cache=tmp_path, digest=DIGEST, limit=LIMIT)
        listener.accept()[0].close()


def test_the_proxy_of_the_environment_is_used(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", web.address)
    url = "http://images.invalid/file.bin"
    assert fetch.download(url, cache=tmp_path, digest=DIGEST, limit=LIMIT).read_bytes() == CONTENT
    assert web.requests[0][0] == url


def test_a_dead_proxy_is_named_without_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://someone:secret@localhost:9")
    with pytest.raises(DownloadError, match="through the proxy localhost: check") as caught:
        fetch.download("http://images.invalid/file.bin", cache=tmp_path, digest=DIGEST, limit=LIMIT)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_proxy_is_asked_for_what_is_on_this_machine(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    url = web.address.replace("127.0.0.1", host) + "/file.bin"
    assert fetch.download(url, cache=tmp_path, digest=DIGEST, limit=LIMIT).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("mlflow.localhost", True),
        ("0.0.0.0", True),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
        (None, False),
    ],
)
def test_this_machine_is_told_from_others(host: str | None, here: bool) -> None:
    assert is_loopback(host) is here
