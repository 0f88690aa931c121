"""Limits hold while bytes arrive: what is too much is refused before it is held."""

import json
import socket
import threading

import pytest
import uvicorn
from tests.waiting import PATIENCE

from nsh.serving.encoder import Encoder


def converse(client, sent):
    """Send raw bytes and return the answer, however much more the server could expect."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) as connection:
        connection.sendall(sent)
        answer = b""
        while b"\r\n\r\n" not in answer or b"}" not in answer:
            chunk = connection.recv(65536)
            assert chunk, answer
            answer += chunk
        return answer


def test_a_body_that_says_it_is_too_large_is_refused_unread(serve):
    with serve(max_body=1000) as client:
        head = b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 1001\r\n\r\n"
        answer = converse(client, head)
    assert answer.split()[1] == b"413"
    assert b"urn:nsh:problem:too-large" in answer


def test_a_body_that_grows_too_large_is_refused_at_the_chunk_too_many(serve):
    """Without its end: two chunks of 400 bytes are waited on, and are no more than no image once the end has come."""
    with serve(max_body=1000) as client:
        head = b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunk, end = b"190\r\n" + b"x" * 400 + b"\r\n", b"0\r\n\r\n"
        assert converse(client, head + 3 * chunk).split()[1] == b"413"
        assert converse(client, head + 2 * chunk + end).split()[1] == b"422"


def test_a_body_of_exactly_the_limit_is_read(serve, picture):
    with serve(max_body=len(picture)) as client:
        assert client.post_image("/v1/encode", picture).status == 200
        assert client.post_image("/v1/encode", picture + b"x").status == 413


def test_a_large_upload_gets_its_answer_in_full(serve):
    with serve(max_body=1000) as client:
        answer = client.post_image("/v1/encode", bytes(300_000))
    assert (answer.status, answer.json["limit"], answer.headers["connection"]) == (413, 1000, "close")


def test_a_body_that_does_not_arrive_is_given_up(serve):
    with serve(timeout=0.3) as client:
        head = b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 100\r\n\r\nxx"
        answer = converse(client, head)
        assert answer.split()[1] == b"408"
        assert b"more than the 0.3 seconds allowed" in answer


def test_pixels_and_images_are_limited(serve, picture):
    with serve(max_pixels=64 * 64 - 1, max_images=2) as client:
        assert "4095 pixels" in client.post_image("/v1/encode", picture).json["detail"]
        answer = client.post_form("/v1/encode", [("a", picture)] * 3)
        assert (answer.status, answer.json["type"]) == (413, "urn:nsh:problem:too-many-images")


@pytest.fixture
def held(monkeypatch):
    """Holds every inference until the event is set."""
    gate, entered, run = threading.Event(), threading.Event(), Encoder.run

    def wait(self, batch):
        if threading.current_thread().name.startswith("encode"):
            entered.set()
            assert gate.wait(PATIENCE)
        return run(self, batch)

    monkeypatch.setattr(Encoder, "run", wait)
    yield gate, entered
    gate.set()


def test_the_request_too_many_is_told_to_come_again_and_the_others_are_served(serve, picture, held):
    gate, entered = held
    with serve(queue=1) as client:
        answers = []
        thread = threading.Thread(target=lambda: answers.append(client.post_image("/v1/encode", picture)))
        thread.start()
        assert entered.wait(PATIENCE)
        refused = client.post_image("/v1/encode", picture)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert client.get("/healthz").status == 200
        metrics = client.get("/metrics").body.decode()
        gate.set()
        thread.join()
        assert answers[0].status == 200
        assert client.post_image("/v1/encode", picture).status == 200
    assert 'nsh_requests_refused_total{limit="overloaded"} 1.0' in metrics
    assert "nsh_requests_in_flight 1.0" in metrics


def test_work_that_takes_too_long_is_answered_in_time(serve, picture, held):
    gate, _ = held
    with serve(timeout=0.3) as client:
        answer = client.post_image("/v1/encode", picture)
        gate.set()
        assert (answer.status, json.loads(answer.body)["type"]) == (504, "urn:nsh:problem:out-of-time")


def test_stopping_finishes_what_is_in_flight(serve, picture, held, monkeypatch):
    gate, entered = held
    original = uvicorn.Server.shutdown

    async def shutdown(self, sockets=None):
        gate.set()
        await original(self, sockets)

    answers = []
    with serve() as client:
        thread = threading.Thread(target=lambda: answers.append(client.post_image("/v1/encode", picture)))
        thread.start()
        assert entered.wait(PATIENCE)
        monkeypatch.setattr(uvicorn.Server, "shutdown", shutdown)
    thread.join()
    assert answers[0].status == 200
