"""A real service: an encoder, an index of real photographs' crops, and a server that listens on 127.0.0.1."""

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn.server
from PIL import Image
from tests.waiting import PATIENCE, wait_until

from nsh.serving.encoder import Encoder
from nsh.serving.index import Index
from nsh.serving.service.server import configure
from nsh.serving.service.service import Service
from nsh.serving.service.settings import Settings

TOKEN = "a token of the tests"
BOUNDARY = "the-boundary"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Speaks to one server, by a new connection each time."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, names)
            response = connection.getresponse()
            return Answer(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post_image(self, path: str, content: bytes, **headers: str) -> Answer:
        return self.ask("POST", path, content, Content_Type="image/png", **headers)

    def post_json(self, path: str, document: Any, method: str = "POST", **headers: str) -> Answer:
        return self.ask(method, path, json.dumps(document), Content_Type="application/json", **headers)

    def post_form(self, path: str, files: list[tuple[str, bytes]], **headers: str) -> Answer:
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        return self.ask("POST", path, make_form(files), Content_Type=kind, **headers)


def make_form(files: list[tuple[str, bytes]]) -> bytes:
    head = '--{}\r\nContent-Disposition: form-data; name="image"; filename="{}"\r\nContent-Type: image/png\r\n\r\n'
    parts = [head.format(BOUNDARY, name).encode() + content + b"\r\n" for name, content in files]
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


@pytest.fixture(scope="session")
def gallery(photographs, tmp_path_factory) -> Path:
    """Thirty images, left/00.png to right/29.png."""
    root = tmp_path_factory.mktemp("images")
    for number in range(30):
        path = root / ("left", "right")[number % 2] / f"{number:02d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(photographs[number]).save(path)
    return root


@pytest.fixture(scope="session")
def encoder(encoder_path) -> Encoder:
    return Encoder(encoder_path, threads=1)


@pytest.fixture
def index_path(gallery, encoder, tmp_path) -> Path:
    """An index of the gallery, of the test's own."""
    paths = sorted(gallery.rglob("*.png"))
    index = Index.create(tmp_path / "index", bits=encoder.contract.bits, encoder_identity=encoder.identity)
    index.add(
        [path.relative_to(gallery).as_posix() for path in paths],
        encoder.encode(paths),
        metadata=[{"side": path.parent.name} for path in paths],
        encoder_identity=encoder.identity,
    )
    return tmp_path / "index"


class _Wakeful:
    """asyncio, with short sleeps."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


@pytest.fixture(scope="session", autouse=True)
def wakeful_server() -> Iterator[None]:
    """uvicorn looks every tenth of a second whether it shall stop, and hundreds of servers are stopped here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", _Wakeful())
        yield


@contextmanager
def listening(service: Service) -> Iterator[Client]:
    server = uvicorn.Server(configure(service, host="127.0.0.1", port=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        assert server.started, "the server has died"
        yield Client(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def serve(encoder_path, index_path, gallery) -> Callable[..., AbstractContextManager[Client]]:
    """Serve the index with further settings: `with serve(queue=1) as client`."""

    def start(**settings: Any) -> AbstractContextManager[Client]:
        chosen = {"model": encoder_path, "index": index_path, "images": gallery, "token": TOKEN, **settings}
        return listening(Service(Settings(**chosen)))

    return start


@pytest.fixture
def connect() -> type[Client]:
    """A client of a server at a port."""
    return Client


@pytest.fixture
def client(serve) -> Iterator[Client]:
    with serve() as client:
        yield client


@pytest.fixture
def held(monkeypatch):
    """Holds every inference until the event is set."""
    gate, entered, run = threading.Event(), threading.Event(), Encoder.run_batch

    def wait(self, sources):
        if threading.current_thread().name.startswith("encode"):
            entered.set()
            assert gate.wait(PATIENCE)
        return run(self, sources)

    monkeypatch.setattr(Encoder, "run_batch", wait)
    yield gate, entered
    gate.set()


@pytest.fixture(scope="session")
def picture(gallery) -> bytes:
    """An image that is in the index, as left/00.png."""
    return (gallery / "left" / "00.png").read_bytes()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from tests.serving.service.browsing import start

    browser = start(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.quit()


@pytest.fixture
def page(browser, client):
    """The page, opened."""
    from tests.serving.service.browsing import Page, open_page, resize

    resize(browser, "wide", "light")
    open_page(browser, client)
    browser.get_log("browser")
    return Page(browser, client)
