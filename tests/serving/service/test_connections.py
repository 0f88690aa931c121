"""A connection has a deadline at all times, and too many of them cost nobody but those who ask nothing."""

import logging
import re
import socket
from contextlib import suppress

import pytest
from tests.waiting import PATIENCE, wait_until

from nsh.serving.service import connections

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def dial():
    """Opens connections, which are closed after the test."""
    opened = []

    def connect(client, sent=b""):
        connection = socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE)
        opened.append(connection)
        connection.sendall(sent)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def read_to_end(connection):
    """All that comes until the service closes; it resets a connection of which it has left something unread."""
    answer = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            answer += piece
    return answer


def read_answer(connection):
    answer = b""
    while not answer.endswith(b"ok\n"):
        piece = connection.recv(65536)
        assert piece, answer
        answer += piece
    return answer


def test_a_request_that_does_not_come_is_given_up(serve, dial):
    with serve(timeout=0.5) as client:
        assert read_to_end(dial(client)) == b""


def test_a_head_that_comes_in_part_is_given_up_with_a_word(serve, dial):
    with serve(timeout=2) as client:
        connection = dial(client, REQUEST)
        read_answer(connection)
        connection.sendall(REQUEST[:9])
        assert read_to_end(connection).startswith(b"HTTP/1.1 408 ")


def test_a_head_that_drips_wins_no_time(serve, dial):
    with serve(timeout=0.5) as client:
        connection = dial(client)
        connection.settimeout(0.02)
        while not is_closed_after(connection, b"G"):  # for ever, if each byte won time: pytest ends it
            pass


def is_closed_after(connection, sent):
    try:
        connection.sendall(sent)
        return connection.recv(65536) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_an_answer_that_is_not_read_is_given_up(serve, dial, monkeypatch):
    monkeypatch.setattr(connections, "SPARE_SECONDS", 0.2)
    with serve(timeout=2) as client:
        dial(client, REQUEST.replace(b"/healthz", b"/openapi.json") * 2000)
        wait_until(lambda: re.search(r'closed_total\{reason="deadline"\} [1-9]', client.get("/metrics").body.decode()))


def test_between_two_requests_only_the_keep_alive_counts(serve, dial):
    with serve(timeout=2) as client:
        idle, silent = dial(client, REQUEST), dial(client)
        read_answer(idle)
        assert read_to_end(silent) == b""  # its deadline has passed
        idle.sendall(REQUEST)
        read_answer(idle)


def test_the_keep_alive_ends_an_idle_connection(serve, dial):
    with serve(keep_alive=1) as client:
        idle = dial(client, REQUEST)
        read_answer(idle)
        assert read_to_end(idle) == b""


def test_whoever_waits_longest_makes_room(serve, dial, picture, held, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="nsh.service")
    monkeypatch.setattr(connections, "IDLE_CONNECTIONS", 3)
    gate, entered = held
    with serve(queue=1) as client:
        length = f"Content-Length: {len(picture)}\r\n".encode()
        busy = dial(client, b"POST /v1/encode HTTP/1.1\r\nHost: localhost\r\n" + length + b"\r\n" + picture)
        assert entered.wait(PATIENCE)
        waiting = [dial(client, REQUEST[:9]) for _ in range(8)]
        for connection in waiting[:5]:
            assert read_to_end(connection) == b""
        for connection in waiting[5:]:
            connection.sendall(REQUEST[9:])
            read_answer(connection)
        gate.set()
        assert busy.recv(65536).startswith(b"HTTP/1.1 200 ")
        metrics = client.get("/metrics").body.decode()
    assert 'nsh_connections_closed_total{reason="limit"} 6.0' in metrics
    assert [record.message for record in caplog.records].count("too many connections") == 1


def test_an_upgrade_is_not_taken(client, dial):
    asked = REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert read_answer(dial(client, asked)).startswith(b"HTTP/1.1 200 ")


def test_requests_in_one_packet_are_answered_in_turn(client, dial):
    last = REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert read_to_end(dial(client, REQUEST * 20 + last)).count(b"200 OK") == 21
