"""Limits hold while bytes arrive: what is too much is refused before it is held."""

import json
import socket
import threading

import pytest
import uvicorn
from tests.waiting import PATIENCE, wait_until

from nsh.serving.service import request_limits

CHUNKED = (
    b"POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n"
)
CHUNK = b"ffff\r\n" + bytes(0xFFFF) + b"\r\n"


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
        head = b"POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 1001\r\n\r\n"
        answer = converse(client, head)
    assert answer.split()[1] == b"413"
    assert b"urn:nsh:problem:too-large" in answer


def test_a_body_that_grows_too_large_is_refused_at_the_chunk_too_many(serve):
    """Without its end: two chunks of 400 bytes are waited on, and are no more than no image once the end has come."""
    with serve(max_body=1000) as client:
        chunk, end = b"190\r\n" + b"x" * 400 + b"\r\n", b"0\r\n\r\n"
        assert converse(client, CHUNKED + 3 * chunk).split()[1] == b"413"
        assert converse(client, CHUNKED + 2 * chunk + end).split()[1] == b"422"


def test_a_body_of_exactly_the_limit_is_read(serve, picture):
    with serve(max_body=len(picture)) as client:
        assert client.post_image("/v1/encode", picture).status == 200
        assert client.post_image("/v1/encode", picture + b"x").status == 413


def test_a_large_upload_gets_its_answer_in_full(serve):
    with serve(max_body=1000) as client:
        answer = client.post_image("/v1/encode", bytes(300_000))
    assert (answer.status, answer.json["limit"], answer.headers["connection"]) == (413, 1000, "close")


def pieces():
    for _ in range(31):
        yield bytes(2**20)


@pytest.mark.parametrize("close", [{}, {"Connection": "close"}])
@pytest.mark.parametrize(
    ("path", "kind", "make_body", "status"),
    [
        ("/v1/encode", "image/png", lambda: bytes(31 * 2**20), 413),  # said beforehand
        ("/v1/encode", "image/png", pieces, 413),  # found while it arrives
        ("/v1/encode", "text/plain", lambda: bytes(15 * 2**20), 415),  # within the limit, and not what is wanted
        ("/v1/items", "image/png", lambda: bytes(15 * 2**20), 401),
    ],
)
def test_a_client_that_sends_first_and_listens_later_gets_its_answer(client, path, kind, make_body, status, close):
    assert client.ask("POST", path, make_body(), Content_Type=kind, **close).status == status


def test_a_body_without_end_is_not_read_for_ever(serve, monkeypatch):
    monkeypatch.setattr(request_limits, "LINGER_BYTES", 100_000)
    with (
        serve(max_body=1000) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) as connection,
    ):
        connection.sendall(CHUNKED)
        while is_open_after(connection, CHUNK):  # for ever, if it were read for ever: pytest ends it
            pass


def is_open_after(connection, sent):
    try:
        connection.sendall(sent)
    except ConnectionError:
        return False
    return True


def test_who_is_refused_and_neither_sends_nor_leaves_holds_up_nobody(serve, picture, monkeypatch):
    monkeypatch.setattr(request_limits, "LINGER_SECONDS", 20)
    with (
        serve(max_body=len(picture), queue=1, timeout=20) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) as connection,
    ):
        connection.sendall(CHUNKED + CHUNK)
        assert connection.recv(65536).split()[1] == b"413"
        assert client.post_image("/v1/encode", picture).status == 200


def test_bodies_that_hardly_arrive_give_way(serve, picture, monkeypatch):
    monkeypatch.setattr(request_limits, "GRACE_SECONDS", 0)
    with serve(queue=1) as client, socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) as connection:
        connection.sendall(CHUNKED)
        wait_until(lambda: "nsh_requests_in_flight 1.0" in client.get("/metrics").body.decode())
        assert client.post_image("/v1/encode", picture).status == 200
        assert connection.recv(65536).split()[1] == b"408"


def test_a_length_beside_chunks_is_refused(client):
    head = CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n")
    assert converse(client, head + b"0\r\n\r\n").split()[1] == b"422"


def test_a_body_that_does_not_arrive_is_given_up(serve):
    with serve(timeout=2) as client:
        head = (
            b"POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 100\r\n\r\nxx"
        )
        answer = converse(client, head)
        assert answer.split()[1] == b"408"
        assert b"more than the 2 seconds allowed" in answer


def test_pixels_and_images_are_limited(serve, picture):
    with serve(max_pixels=64 * 64 - 1, max_images=2) as client:
        assert "4095 pixels" in client.post_image("/v1/encode", picture).json["detail"]
        answer = client.post_form("/v1/encode", [("a", picture)] * 3)
        assert (answer.status, answer.json["type"]) == (413, "urn:nsh:problem:too-many-images")


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
    with serve(timeout=2) as client:
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
