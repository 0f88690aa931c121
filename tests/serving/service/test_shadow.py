"""A second release is compared behind the answers: what is counted, and that no answer waits for it."""

import re
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.commands import run_nsh
from tests.encoders import write_encoder
from tests.waiting import PATIENCE, wait_until

from nsh.core.hamming import rank
from nsh.serving.encoder import Encoder
from nsh.serving.index import Index
from nsh.serving.service import schemas, shadow
from nsh.serving.service.settings import Shadow


@pytest.fixture(scope="module")
def other_path(encoder_path, tmp_path_factory) -> Path:
    """An encoder whose head is drawn anew."""
    drawn = np.random.default_rng(0).normal(size=(12, 64))
    path = tmp_path_factory.mktemp("other") / "encoder.onnx"
    return write_encoder(path, encoder_path, lambda weights, biases: (drawn, biases))


@pytest.fixture(scope="module")
def other_index(other_path, gallery, tmp_path_factory) -> Path:
    encoder, paths = Encoder(other_path, threads=1), sorted(gallery.rglob("*.png"))
    folder = tmp_path_factory.mktemp("other") / "index"
    index = Index.create(folder, bits=encoder.contract.bits, encoder_identity=encoder.identity)
    ids = [path.relative_to(gallery).as_posix() for path in paths]
    index.add(ids, encoder.encode(paths), encoder_identity=encoder.identity)
    return folder


def compared(client, count: int):
    wait_until(lambda: client.get("/v1/shadow").json["compared"] == count)
    return client.get("/v1/shadow").json


def test_the_overlap_is_what_a_loop_finds(serve, other_path, other_index, gallery, encoder):
    other, paths = Encoder(other_path, threads=1), sorted(gallery.rglob("*.png"))
    ids = [path.relative_to(gallery).as_posix() for path in paths]
    (a, b), shares, first = (one.encode(paths) for one in (encoder, other)), [], 0
    with serve(shadow=Shadow(model=other_path, index=other_index, share=1.0)) as client:
        for row, name in enumerate(ids[:6]):
            mine, theirs = (rank(codes[row : row + 1], codes, k=5)[0][0].tolist() for codes in (a, b))
            shares.append(len(set(mine) & set(theirs)) / 5)
            first += mine[0] == theirs[0]
            answer = client.post_json("/v1/search?k=5", {"id": name}) if row % 2 else None
            answer = answer or client.post_image("/v1/search?k=5", paths[row].read_bytes())
            assert [hit["id"] for hit in answer.json["hits"]] == [ids[place] for place in mine]
        report = compared(client, 6)
        metrics = client.get("/metrics").body.decode()
    assert schemas.ShadowReport.model_validate(report)
    assert report["overlap"] == pytest.approx(np.mean(shares))
    assert 0 < report["overlap"] < 1
    assert report["same_first_hit"] == pytest.approx(first / 6)
    assert [low["overlap"] for low in report["lowest"]] == sorted(shares)
    assert (report["encoder_identity"], report["shadow_identity"]) == (encoder.identity, other.identity)
    assert 'nsh_shadow_requests_total{outcome="compared"} 6.0' in metrics
    assert float(re.search(r"nsh_shadow_overlap_sum (\S+)", metrics)[1]) == pytest.approx(sum(shares))
    assert "nsh_shadow_seconds_count 6.0" in metrics
    assert "nsh_index_items 30.0" in metrics


def test_a_share_of_the_searches_is_compared(serve, other_path, other_index):
    with serve(shadow=Shadow(model=other_path, index=other_index, share=0.25)) as client:
        for _ in range(8):
            assert client.post_json("/v1/search", {"id": "left/00.png"}).status == 200
        assert compared(client, 2)["dropped"] == 0


def test_answers_do_not_wait_and_what_cannot_wait_is_dropped(serve, other_path, other_index, picture, monkeypatch):
    gate, search = threading.Event(), shadow.ShadowRelease._search

    def wait(self, searched):
        assert gate.wait(PATIENCE)
        return search(self, searched)

    monkeypatch.setattr(shadow.ShadowRelease, "_search", wait)
    monkeypatch.setattr(shadow, "WAITING", 2)
    with serve(shadow=Shadow(model=other_path, index=other_index, share=1.0)) as client:
        for _ in range(3):
            assert client.post_image("/v1/search", picture).status == 200
        assert client.get("/v1/shadow").json["dropped"] == 1
        gate.set()
        compared(client, 2)


def test_what_fails_in_the_shadow_reaches_no_client(serve, other_path, other_index):
    """The other index has no metadata, so that it cannot be filtered by them."""
    with serve(shadow=Shadow(model=other_path, index=other_index, share=1.0)) as client:
        answer = client.post_json("/v1/search?column=side&value=left", {"id": "left/00.png"})
        assert (answer.status, len(answer.json["hits"])) == (200, 10)
        wait_until(lambda: client.get("/v1/shadow").json["failed"] == 1)


def test_without_a_shadow_there_is_no_report(client):
    assert client.get("/v1/shadow").status == 404


def test_a_shadow_is_an_encoder_and_its_index(encoder_path, index_path, other_path):
    words = ["serve", "--model", encoder_path, "--index", index_path, "--shadow"]
    assert "it is written MODEL:INDEX" in run_nsh(*words, other_path).stderr
    mixed = run_nsh(*words, f"{other_path}:{index_path}")
    assert (mixed.returncode, "build another index" in mixed.stderr) == (2, True)
