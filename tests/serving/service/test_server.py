"""The command: what it refuses, and how it stops."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest
from tests.commands import run_nsh
from tests.waiting import PATIENCE, wait_until

from nsh.serving.index import Index

FILES = 256


@pytest.fixture
def process(encoder_path, index_path, connect):
    """`nsh serve` in a process of its own, once it listens."""
    command = [sys.executable, "-m", "nsh.cli", "serve", "--model", encoder_path, "--index", index_path]
    server = subprocess.Popen(
        ["sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh", *command, "--port", "0", "--threads", "1"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NSH_MAX_IMAGES": "3", "NSH_ALLOWED_HOSTS": "a.example, *.b.example"},
    )
    lines = []
    for line in server.stderr:
        lines.append(json.loads(line))
        if found := re.search(r"running on http://127.0.0.1:(\d+)", lines[-1]["event"]):
            yield server, connect(int(found[1]))
            break
    server.kill()
    server.stderr.close()
    server.wait()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_order(process, picture, stop):
    server, client = process
    assert client.post_image("/v1/encode", picture).status == 200
    assert client.get("/v1/info", Host="c.b.example").json["limits"]["images"] == 3  # by the environment
    server.send_signal(stop)
    assert server.wait(PATIENCE) == 0
    events = [json.loads(line)["event"] for line in server.stderr.read().splitlines()]  # every line is JSON
    assert events[-1] == "stop"


def requests_in_flight(client):
    (count,) = re.findall(r"^nsh_requests_in_flight (\S+)$", client.get("/metrics").body.decode(), re.MULTILINE)
    return float(count)


def test_requests_under_way_are_answered_after_the_signal(process, gallery):
    server, client = process
    files = [(str(number), path.read_bytes()) for number, path in enumerate(sorted(gallery.rglob("*.png"))[:3])]
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(client.post_form("/v1/encode", files))) for _ in range(8)]
    for thread in threads:
        thread.start()
    # One that comes after the signal is refused, as it should be. The answered ones are counted first: one that is
    # answered between the two looks is in neither, and looked for again.
    wait_until(lambda: len(answers) + requests_in_flight(client) == 8)
    server.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert server.wait(PATIENCE) == 0
    assert [answer.status for answer in answers] == [200] * 8


def test_more_connections_than_files_leave_it_usable_and_the_log_short(process):
    server, client = process
    silent = [socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) for _ in range(FILES + 50)]
    for connection in silent:
        connection.sendall(b"GET /healthz HT")
    assert client.get("/v1/info").status == 200
    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE) == 0
    events = [json.loads(line)["event"] for line in server.stderr.read().splitlines()]
    assert events.count("too many connections") == 1
    assert len(events) < 20
    for connection in silent:
        connection.close()


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (["--queue", "0"], {}, "queue: found 0, allowed are 1 to"),
        (["--images", "nowhere"], {}, "there is no folder nowhere"),
        ([], {"NSH_TOKEN": "short"}, "at least 16 ASCII characters"),
        (["--allowed-hosts", "http://a.example"], {}, "allowed hosts: found 'http://a.example'"),
        (["--index", "nowhere"], {}, "there is no index in nowhere"),
        (["--device", "abacus"], {}, "abacus"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_exit_code_2(
    encoder_path, index_path, options, environment, said, monkeypatch
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = run_nsh("serve", "--model", encoder_path, "--index", index_path, *options)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_an_index_of_another_encoder_is_refused(encoder_path, tmp_path):
    Index.create(tmp_path / "index", bits=12, encoder_identity="0" * 64)
    result = run_nsh("serve", "--model", encoder_path, "--index", tmp_path / "index")
    assert result.returncode == 2
    assert "holds codes of the encoder 000000000000" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Address already in use"),
        (["--host", "203.0.113.1"], "Cannot assign requested address"),
        (["--host", "x" * 70], "label"),
    ],
)
def test_where_it_cannot_listen_is_one_sentence_before_the_start(encoder_path, index_path, options, said):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run_nsh("serve", "--model", encoder_path, "--index", index_path, "--port", port, *options)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: cannot listen at ")
    assert said in line
    assert "choose another --port" in line
