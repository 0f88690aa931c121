"""A real Milvus Lite as a server on a port: what the contract of all engines does not say."""

import os
import socket
import subprocess
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.ports import keep_port
from tests.serving.service.conftest import listening
from tests.waiting import wait_until

from nsh.core.codes import code_bytes
from nsh.errors import CodesError, IndexMissing, IndexUnusable
from nsh.serving.encoder import Encoder
from nsh.serving.engines import milvus, milvus_collection
from nsh.serving.engines.milvus import MilvusIndex
from nsh.serving.engines.milvus_address import parse
from nsh.serving.engines.milvus_collection import columns_of
from nsh.serving.engines.milvus_connection import connect
from nsh.serving.engines.milvus_export import export_to_milvus
from nsh.serving.engines.opening import open_engine
from nsh.serving.index import Index
from nsh.serving.service.service import Service
from nsh.serving.service.settings import Settings

ENCODER, TOKEN = "a" * 64, "a token of the tests"


@contextmanager
def started(folder):
    """A server of Milvus on a free port, and its address without a collection."""
    if (package := find_spec("milvus_lite")) is None:
        pytest.skip("needs Milvus Lite: pip install 'nsh[milvus-lite]'")
    programs = Path(package.origin).parent / "lib"
    environment = os.environ | {"LD_LIBRARY_PATH": str(programs)}
    with keep_port() as port:
        command = [programs / "milvus", folder / "server.db", f"127.0.0.1:{port}", "ERROR"]
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)

        def answers():
            assert process.poll() is None, "Milvus has ended"
            with socket.socket() as knocking:
                return knocking.connect_ex(("127.0.0.1", port)) == 0

        try:
            wait_until(answers)
            yield process, f"milvus://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with started(tmp_path_factory.mktemp("milvus")) as (_, url):
        yield url


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Sixty items with two codes: thirty at each of two distances from every query."""
    made = Index.create(tmp_path_factory.mktemp("sqlite") / "index", bits=8, encoder_identity=ENCODER)
    ids = [f"{number * 37 % 60:02d}" for number in range(60)]
    codes = np.array([[0b1111_0000 if number % 2 else 0b1100_0000] for number in range(60)], np.uint8)
    made.add(ids, codes, encoder_identity=ENCODER)
    return made


@pytest.fixture(scope="module")
def exported(server, index):
    export_to_milvus(index, f"{server}/photos")
    return f"{server}/photos"


def names(url):
    client = connect(parse(url))
    return sorted(client.list_collections())


@pytest.mark.parametrize(("query", "k"), [(0b1110_0000, 1), (0b1110_0000, 8), (0b1111_0000, 8), (0b1111_0000, 34)])
def test_more_ties_than_milvus_returns_are_ordered(exported, index, query, k, monkeypatch):
    monkeypatch.setattr(milvus, "LARGEST", 16)  # the first query is as far from all sixty, the second from thirty each
    codes = np.array([[query]], np.uint8)
    assert open_engine(exported).search(codes, k=k) == index.search(codes, k=k)


def test_an_answer_has_a_limit(exported, monkeypatch):
    engine = open_engine(exported)
    with pytest.raises(CodesError, match="found k = 8193: a search in Milvus finds 1 to 8192 items"):
        engine.search(np.zeros((1, 1), np.uint8), k=8193)
    monkeypatch.setattr(milvus, "MOST", 30)
    assert len(engine.search_radius(np.array([[0b1100_0000]], np.uint8), radius=1, limit=30)[0]) == 30
    for find in (
        lambda: engine.search_radius(np.array([[0b1100_0000]], np.uint8), radius=1),
        lambda: engine.search_reranked(np.array([[1, 1, -1, -1, -1, -1, -1, -1]], np.float32), k=60, radius=1),
    ):
        with pytest.raises(CodesError, match="30 items or more are within 1 bits: give a smaller radius"):
            find()


def test_what_is_no_collection_of_ours_is_refused_and_stays(server, index, exported):
    with pytest.raises(IndexMissing, match=r"there is no collection at .*/nothing: make one with"):
        open_engine(f"{server}/nothing")
    with pytest.raises(CodesError, match=r"there is a collection at .*/photos already"):
        export_to_milvus(index, exported)
    connect(parse(exported)).create_collection("others", dimension=4)
    for use in (open_engine, lambda url: export_to_milvus(index, url)):
        with pytest.raises(IndexUnusable, match=r"the collection at .*/others was not made by nsh"):
            use(f"{server}/others")
    assert "others" in names(exported)


def test_a_collection_of_a_newer_schema_is_refused(server, index, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(milvus_collection, "SCHEMA", 2)
        export_to_milvus(index, f"{server}/newer")
    with pytest.raises(IndexUnusable, match="newer has schema 2, and this version reads 1: use the version of nsh"):
        open_engine(f"{server}/newer")


def test_an_interrupted_export_leaves_nothing_and_a_killed_one_is_replaced(server, index, monkeypatch):
    def interrupt(iterable, **_):
        yield from iterable
        raise KeyboardInterrupt

    before, url = names(f"{server}/x"), f"{server}/again"
    with pytest.raises(KeyboardInterrupt):
        export_to_milvus(index, url, progress=interrupt)
    assert names(url) == before
    with monkeypatch.context() as patch:
        patch.setattr(milvus_collection.Collection, "drop", lambda self: None)  # as if killed
        with pytest.raises(KeyboardInterrupt):
            export_to_milvus(index, url, progress=interrupt)
    with pytest.raises(IndexMissing, match=r"the export to .*/again did not finish: run .* again"):
        open_engine(url)
    export_to_milvus(index, url)
    assert len(open_engine(url)) == 60


def test_an_empty_index_and_texts_that_are_too_long(server, tmp_path):
    empty = Index.create(tmp_path / "index", bits=16, encoder_identity=ENCODER)
    export_to_milvus(empty, f"{server}/empty")
    engine = open_engine(f"{server}/empty")
    codes = np.zeros((1, 2), np.uint8)
    assert (len(engine), engine.columns, engine.search(codes, k=3)) == (0, [], [[]])
    with pytest.raises(CodesError, match="with a text that Milvus cannot hold: allowed are 65535 bytes"):
        engine.add(["é" * 40_000], codes, encoder_identity=ENCODER)
    with pytest.raises(CodesError, match="was opened for reading only"):
        open_engine(f"{server}/empty", readonly=True).add(["x"], codes, encoder_identity=ENCODER)
    assert engine.add(["x"], codes, metadata=[{"new": "1"}], encoder_identity=ENCODER) == 1
    assert open_engine(f"{server}/empty").columns == ["new"]


def test_a_collection_that_another_encoder_replaces_is_noticed(server, tmp_path, index):
    export_to_milvus(index, f"{server}/swapped")
    engine = MilvusIndex(parse(f"{server}/swapped"))
    client = connect(engine.address)
    for name in ("swapped", columns_of(engine.address)):
        client.drop_collection(name)
    with pytest.raises(IndexMissing):
        engine.refresh()
    other = Index.create(tmp_path / "index", bits=8, encoder_identity="b" * 64)
    export_to_milvus(other, f"{server}/swapped")
    with pytest.raises(IndexUnusable, match="holds codes of another encoder now"):
        engine.refresh()


@pytest.fixture
def mortal(tmp_path):
    with started(tmp_path) as server:
        yield server


def test_the_service_works_on_milvus_and_says_when_it_is_lost(mortal, tmp_path, photographs, encoder_path, monkeypatch):
    encoder = Encoder(encoder_path, threads=1)
    made = Index.create(tmp_path / "index", bits=encoder.contract.bits, encoder_identity=encoder.identity)
    for number in range(10):
        Image.fromarray(photographs[number]).save(tmp_path / f"{number}.png")
    pictures = [tmp_path / f"{number}.png" for number in range(9)]
    made.add(
        [path.name for path in pictures],
        encoder.encode(pictures),
        metadata=[{"part": "even"} if number % 2 == 0 else {} for number in range(9)],
        encoder_identity=encoder.identity,
    )
    process, url = mortal
    export_to_milvus(made, f"{url}/photos")
    settings = {"model": encoder_path, "images": tmp_path, "token": TOKEN, "refresh": 0.05}
    both = [Service(Settings(index=index, **settings)) for index in (f"{url}/photos", tmp_path / "index")]
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    new = (tmp_path / "9.png").read_bytes()
    with listening(both[0]) as client, listening(both[1]) as expected:
        for path in (
            "k=3",
            "radius=20",
            "column=part&value=even",
            "id_prefix=3",
            "rerank=true&k=5",
            "column=none&value=1",
        ):
            found, wanted = (one.post_image(f"/v1/search?{path}", new) for one in (client, expected))
            assert found.status == wanted.status
            assert found.json.get("hits") == wanted.json.get("hits")
        assert client.post_json("/v1/search", {"id": "3.png"}).json["hits"][0]["id"] == "3.png"
        put = client.ask("PUT", "/v1/items/it's%20new.png?metadata=part=new", new, Content_Type="image/png", **bearer)
        assert (put.status, put.json["items"], put.json["version"]) == (200, 10, None)
        described = client.get("/v1/info").json
        assert (described["items"], described["columns"], described["version"]) == (10, ["part"], None)
        assert client.ask("DELETE", "/v1/items/it's%20new.png", **bearer).json["items"] == 9
        assert client.ask("DELETE", "/v1/items/it's%20new.png", **bearer).status == 404
        assert client.get("/readyz").status == 200
        assert b"nsh_index_items 9.0\n" in client.get("/metrics").body
        monkeypatch.setattr(milvus_collection, "PATIENCE", 0.5)
        process.kill()
        process.wait()
        wait_until(lambda: client.get("/readyz").status == 503)
        lost = client.post_json("/v1/search", {"code": "00" * code_bytes(encoder.contract.bits)})
        assert (lost.status, lost.json["type"]) == (503, "urn:nsh:problem:not-ready")
        assert lost.json["detail"].startswith(f"Milvus at {url}/photos failed (")
        assert client.get("/healthz").status == 200
