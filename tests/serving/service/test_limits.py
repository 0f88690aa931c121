"""Limits hold while bytes arrive: what is too much is refused before it is held."""

import json
import socket
import threading
import time

import pytest

from nsh.serving.encoder import Encoder


def converse(client, head, *pieces, pause=0.0):
    """Send raw bytes, a piece at a time, and return how many pieces went before the answer, and the answer."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
        connection.sendall(head)
        sent = 0
        connection.settimeout(max(pause, 0.05))
        answer = b""
        for piece in pieces:
            try:
                answer = connection.recv(65536)
                break
            except TimeoutError:
                connection.sendall(piece)
                sent += 1
        connection.settimeout(20)
        while b"\r\n\r\n" not in answer or b"}" not in answer:
            chunk = connection.recv(65536)
            assert chunk, answer
            answer += chunk
        return sent, answer


def test_a_body_that_says_it_is_too_large_is_refused_unread(serve):
    with serve(max_body=1000) as client:
        head = b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 1001\r\n\r\n"
        sent, answer = converse(client, head)
    assert (sent, answer.split()[1]) == (0, b"413")
    assert b"urn:nsh:problem:too-large" in answer


def test_a_body_that_grows_too_large_is_refused_at_the_chunk_too_many(serve):
    with serve(max_body=1000) as client:
        head = b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n"
        sent, answer = converse(client, head, *[b"190\r\n" + b"x" * 400 + b"\r\n"] * 50, pause=0.2)
    assert (sent, answer.split()[1]) == (3, b"413")


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
        start = time.monotonic()
        head = b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 100\r\n\r\nxx"
        _, answer = converse(client, head)
        assert time.monotonic() - start < 5
        assert answer.split()[1] == b"408"


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
            assert gate.wait(20)
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
        assert entered.wait(10)
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


def test_stopping_finishes_what_is_in_flight(serve, picture, held):
    gate, entered = held
    answers = []
    with serve() as client:
        thread = threading.Thread(target=lambda: answers.append(client.post_image("/v1/encode", picture)))
        thread.start()
        assert entered.wait(10)
        threading.Timer(0.5, gate.set).start()
    thread.join()
    assert answers[0].status == 200
