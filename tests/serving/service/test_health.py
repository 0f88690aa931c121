"""`nsh health`: where it asks, and what it says."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ports import keep_port
from tests.waiting import PATIENCE
from typer.testing import CliRunner

from nsh.cli import app
from nsh.serving.service.address import url_of

DOCKERFILE = Path(__file__).parents[3] / "Dockerfile"
DEAD = "http://127.0.0.1:9"
PROXIES = {name: DEAD for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY")}


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr("nsh.serving.service.address._SECONDS", PATIENCE)


@pytest.fixture
def dead_port():
    """A port of this machine at which nothing listens."""
    with keep_port() as port:
        yield port


def ask(*arguments, **environment):
    found = CliRunner().invoke(app, ["health", *map(str, arguments)], env=PROXIES | environment)
    return found.exit_code, found.output


def test_a_service_that_answers_is_healthy_whatever_the_proxies(client):
    said = f"http://127.0.0.1:{client.port} answers\n"
    assert ask("--port", client.port) == (0, said)
    assert ask(NSH_PORT=str(client.port), NSH_HOST="0.0.0.0") == (0, said)


def test_the_address_file_goes_before_host_and_port(client, dead_port, tmp_path):
    file = tmp_path / "address"
    file.write_text(f"http://127.0.0.1:{client.port}\n")
    assert ask(NSH_PORT=str(dead_port), NSH_ADDRESS_FILE=str(file))[0] == 0
    file.write_text(f"http://127.0.0.1:{dead_port}\n")
    assert ask("--port", client.port, "--address-file", file)[0] == 1


@pytest.mark.parametrize("content", [None, ""])
def test_without_an_address_in_the_file_host_and_port_count(client, tmp_path, content):
    file = tmp_path / "address"
    if content is not None:
        file.write_text(content)
    assert ask("--port", client.port, "--address-file", file)[0] == 0


def test_silence_is_exit_code_1_and_one_line(dead_port):
    code, said = ask("--port", dead_port)
    assert code == 1
    assert re.fullmatch(rf"http://127.0.0.1:{dead_port} does not answer: .*refused\n", said)


def test_another_answer_than_ok_is_no_health(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "nsh.cli", "health", "--port", str(port)], stderr=subprocess.PIPE, text=True
        )
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        assert process.wait(PATIENCE) == 1
        with process.stderr as said:
            assert said.read() == f"http://127.0.0.1:{port}/healthz answers 403\n"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("10.1.2.3", "http://10.1.2.3:80"),
        ("localhost", "http://localhost:80"),
    ],
)
def test_where_a_listening_service_is_reached(host, url):
    assert url_of(host, 80) == url


def test_the_image_asks_the_service_at_the_port_it_was_given(encoder_path, index_path, dead_port, tmp_path):
    (check,) = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", DOCKERFILE.read_text(), flags=re.MULTILINE)
    address = tmp_path / "address"
    environment = {
        **os.environ,
        **PROXIES,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "NSH_PORT": str(dead_port),
        "NSH_ADDRESS_FILE": str(address),
    }
    options = ["--model", encoder_path, "--index", index_path, "--host", "0.0.0.0", "--port", "0", "--threads", "1"]
    with subprocess.Popen(
        ["nsh", "serve", *map(str, options)], env=environment, stderr=subprocess.PIPE, text=True
    ) as server:
        for line in server.stderr:
            if json.loads(line)["event"] == "listening":
                break
        assert re.fullmatch(r"http://127.0.0.1:\d+\n", address.read_text())
        healthy = subprocess.run(json.loads(check), env=environment, capture_output=True, text=True, check=False)
        server.terminate()
        server.communicate()
    assert (healthy.returncode, healthy.stdout) == (0, f"{address.read_text().strip()} answers\n")
