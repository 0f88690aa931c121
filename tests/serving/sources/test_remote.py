"""Images at addresses give the folder that files give, from a real web server and a store in memory."""

import base64
import io
import pickle
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from types import SimpleNamespace
from urllib.parse import quote, unquote, urlsplit

import pytest
from tests.serving.sources.folders import content

from nsh.errors import ConfigError, DataError, DownloadError
from nsh.serving.bulk import encode_files
from nsh.serving.inputs import find_images

fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install 'nsh[remote]'")
pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'nsh[remote]'")

from nsh.serving.sources import remote, stores  # noqa: E402


class Handler(SimpleHTTPRequestHandler):
    """Serves files, except where the server's `faults` say what else to do for a path."""

    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        path = unquote(urlsplit(self.path).path)
        fault = self.server.faults.get(path) or self.server.faults.get("*")
        answer = fault() if callable(fault) else fault
        if answer is None:
            super().do_GET()
        elif str(answer).startswith("<"):
            self.send_page(answer)
        elif answer == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
        elif answer == "loop":
            self.send_response(302)
            self.send_header("Location", self.path)
            self.end_headers()
        elif answer == "silence":
            self.connection.close()
        else:
            self.send_error(answer)

    def send_page(self, page):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def running(photos):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=photos)) as server:
        server.faults, server.seen = {}, []
        Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(
            url=f"http://127.0.0.1:{server.server_port}",
            faults=server.faults,
            seen=server.seen,
            port=server.server_port,
        )
        server.shutdown()


@pytest.fixture
def web(running, monkeypatch):
    """The web server of this file, which begins without faults; further tries come at once."""
    monkeypatch.setattr(stores, "WAITS", (0.0, 0.0))
    running.faults.clear()
    running.seen.clear()
    return running


@pytest.fixture(scope="module")
def in_memory(photos):
    """The root of the photographs in fsspec's store in memory."""
    store = fsspec.filesystem("memory")
    store.put(f"{photos}/", "/bucket/photos/", recursive=True)
    yield "memory://bucket/photos"
    store.rm("/bucket", recursive=True)


PAGE = """<a href="?C=N;O=D">by name</a> <a href="/">top</a> <a href="../">up</a> <a href="sub/">sub</a>
<a href="1%20a.jpg">1</a> <a href="./2.jpg">2</a> <a href="/3.jpg">3</a> <a href="/sub/deep/5.jpg">5</a>
<a href="https://example.org/6.jpg">6</a> <a href="mailto:me">me</a>"""
"""As Apache, Caddy and others write the page of a folder."""


def lines(*names):
    return io.BytesIO("\n".join(names).encode())


def encode(encoder, images, out):
    return encode_files(encoder, images, out=out, batch=4)


def test_a_root_on_a_web_server_gives_what_its_files_give(encoder, web, local, tmp_path):
    images = find_images([web.url])
    assert images.ids == local.images.ids
    assert images.left_out == local.images.left_out
    assert encode(encoder, images, tmp_path / "codes") == local.summary
    assert content(tmp_path / "codes") == local.content


def test_a_root_in_a_store_gives_what_its_files_give(encoder, in_memory, local, tmp_path):
    images = find_images([in_memory + "/"])
    assert (images.ids, images.left_out) == (local.images.ids, local.images.left_out)
    assert encode(encoder, images, tmp_path / "codes") == local.summary
    assert content(tmp_path / "codes") == local.content


@pytest.mark.parametrize("kind", ["web", "quoted otherwise", "memory", "relative", "files"])
def test_a_list_gives_what_the_files_give(encoder, web, in_memory, photos, local, tmp_path, kind):
    ids = local.images.ids
    root, listed = {
        "web": (web.url, [f"{web.url}/{quote(name)}" for name in ids]),
        "quoted otherwise": (web.url + "/", [f"{web.url}/{quote(name, safe='/(')}" for name in reversed(ids)]),
        "memory": (in_memory, [f"{in_memory}/{name}" for name in ids]),
        "relative": (in_memory, ids),
        "files": (photos.as_uri(), [(photos / name).as_uri() for name in ids]),
    }[kind]
    images = find_images(["-"], root=root, stdin=lines(*listed))
    assert encode(encoder, images, tmp_path / "codes") == local.summary
    assert content(tmp_path / "codes") == local.content


def test_a_second_run_keeps_what_has_a_code(encoder, web, local, tmp_path):
    out = shutil.copytree(local.out, tmp_path / "codes")
    summary = encode(encoder, find_images([web.url]), out)
    assert summary.kept == summary.images
    assert content(out) == local.content


ANSWERS = {
    403: "403 Forbidden",
    404: "404 Not Found",
    410: "410 Gone",
    503: "503 Service Unavailable",
    599: "status 599",
    "cut": "ClientPayloadError",
    "silence": "ServerDisconnectedError",
    "loop": "TooManyRedirects",
}


def test_images_that_cannot_be_had_are_rows_and_cost_no_other_its_code(encoder, web, local, tmp_path):
    images, out = find_images([web.url]), tmp_path / "codes"
    web.faults.update(zip(("/" + name for name in local.images.ids), ANSWERS, strict=False))
    summary = encode(encoder, images, out)
    failed = {entry.id: entry.error for entry in summary.errors if entry.id != "b/bad.jpg"}
    assert failed == {
        name: f"cannot be read: {error}" for name, error in zip(local.images.ids, ANSWERS.values(), strict=False)
    }
    assert {entry.sha256 for entry in summary.errors if entry.id in failed} == {None}
    web.faults.clear()
    assert encode(encoder, images, out).changed == len(ANSWERS)
    assert content(out) == local.content


def test_a_store_that_is_busy_for_a_while_is_asked_again(encoder, web, local, tmp_path):
    images, turn = find_images([web.url]), count()
    web.faults["/" + local.images.ids[0]] = lambda: 503 if next(turn) < 2 else None
    assert encode(encoder, images, tmp_path / "codes") == local.summary
    assert next(turn) == 3


def test_a_store_that_answers_no_more_ends_the_run_which_can_go_on(encoder, web, local, tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE", 3)
    images = find_images([web.url])
    web.faults["*"] = 503
    stopped = pytest.raises(
        DownloadError, match=rf"{web.url}/.* \(503 Service Unavailable\): run the same command again"
    )
    with stopped:
        encode(encoder, images, tmp_path / "codes")
    assert not (tmp_path / "codes/header.json").exists()
    web.faults.clear()
    encode(encoder, images, tmp_path / "codes")
    assert content(tmp_path / "codes") == local.content


def test_an_image_of_too_many_bytes_is_a_row(encoder, web, in_memory, tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "LARGEST", 3)
    for number, root in enumerate((web.url, in_memory)):
        images = find_images(["-"], root=root, stdin=lines("b/bad.jpg", "b/notes.txt", "b/00 #%2F?.png"))
        with pytest.raises(DataError, match=r"not one of the 3 images .*b/00 #%2F\?.png.* bytes allowed"):
            encode(encoder, images, tmp_path / str(number))


def test_what_signs_an_address_is_used_and_written_nowhere(encoder, web, local, tmp_path):
    name = quote(local.images.ids[0])
    address = f"http://me:s3cret@127.0.0.1:{web.port}/{name}?width=9&X-Amz-Signature=s3cret&sig=s3cret"
    images = find_images(
        ["-"], stdin=lines(address, address.replace("s3cret", "s3cret2") + "#top", f"{web.url}/gone.png")
    )
    assert images.ids == [f"{web.url}/{name}?width=9", f"{web.url}/gone.png"]
    summary = encode(encoder, images, tmp_path / "codes")
    assert (summary.encoded, [entry.id for entry in summary.errors]) == (1, [f"{web.url}/gone.png"])
    assert b"s3cret" not in b"".join(content(tmp_path / "codes").values())
    # Images are fetched side by side: which request comes first is open.
    signed = (f"/{name}?width=9&X-Amz-Signature=s3cret&sig=s3cret", "Basic " + base64.b64encode(b"me:s3cret").decode())
    assert sorted(web.seen, key=str) == sorted([signed, ("/gone.png", None)], key=str)
    web.faults["*"] = 403
    with pytest.raises(DataError, match="403 Forbidden") as refused:
        find_images([f"http://me:s3cret@127.0.0.1:{web.port}/photos"])
    assert "s3cret" not in str(refused.value)


def test_images_of_servers_that_do_not_exist_are_rows(encoder, web, local, tmp_path):
    gone = "http://no-such-host.invalid/1.jpg"
    good = f"{web.url}/{quote(local.images.ids[0])}"
    summary = encode(encoder, find_images(["-"], stdin=lines(good, gone, "http://[/1.jpg")), tmp_path / "codes")
    assert summary.encoded == 1
    failed = {entry.id: entry.error for entry in summary.errors}
    assert set(failed) == {gone, "http://[/1.jpg"}
    assert failed["http://[/1.jpg"] == "cannot be read: no valid address"


@pytest.mark.parametrize(
    ("arguments", "listed", "kind", "message"),
    [
        (["nosuch://bucket/photos"], [], ConfigError, "found an address nosuch://: allowed are file://"),
        (["-"], ["nosuch://bucket/1.jpg"], ConfigError, "found an address nosuch://"),
        (["oss://bucket/photos"], [], ConfigError, "addresses oss:// need another package"),
        (["memory://nowhere"], [], DataError, "memory://nowhere cannot be read: 404 Not Found: check the address"),
        (
            ["http://no-such-host.invalid/photos"],
            [],
            DownloadError,
            "http://no-such-host.invalid/photos cannot be read",
        ),
        (["memory://bucket/photos", "memory://bucket/more"], [], ConfigError, "name one root, or give a list"),
        (["-", "photo.jpg"], ["memory://bucket/1.jpg"], DataError, "found the file photo.jpg beside addresses"),
        (["-", "memory://bucket/1.tar"], ["memory://bucket/1.jpg"], DataError, "found the archive"),
        (["memory://bucket/1.tar.gz"], [], DataError, "is compressed as a whole"),
    ],
)
def test_what_cannot_be_found_is_one_sentence(web, in_memory, arguments, listed, kind, message):
    with pytest.raises(kind) as refused:
        find_images(arguments, stdin=lines(*listed))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_address_outside_of_the_root_is_refused(web):
    with pytest.raises(DataError, match=r"http://other/1\.jpg is not below"):
        find_images(["-"], root=web.url, stdin=lines("http://other/1.jpg?token=s3cret"))
    with pytest.raises(ConfigError, match="found --root photos and addresses"):
        find_images(["-"], root="photos", stdin=lines("http://other/1.jpg"))


def test_a_page_of_links_is_listed_without_links_that_lead_elsewhere(web):
    web.faults.update({"/": PAGE, "/sub": '<a href="../">up</a><a href="4.jpg">4</a>'})
    assert find_images([web.url]).ids == ["1 a.jpg", "2.jpg", "3.jpg", "sub/4.jpg"]


def test_globs_leave_out_objects(web, local):
    images = find_images([web.url], exclude=["*.jpg", "a 語/**"])
    assert images.ids == [name for name in local.images.ids if name.startswith("b/") and name.endswith(".png")]
    listed = lines(*(f"{web.url}/{quote(name)}" for name in local.images.ids))
    assert find_images(["-"], root=web.url, exclude=["*.jpg", "a 語"], stdin=listed).ids == images.ids


def test_the_source_can_be_sent_to_another_process(web, local):
    source = pickle.loads(pickle.dumps(find_images([web.url]).source))
    assert next(source.read(["b/bad.jpg"], first=0)) == b"bad"
