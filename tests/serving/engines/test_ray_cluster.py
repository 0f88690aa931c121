"""Addresses where no Ray answers, and heads that are lost, end the command with one sentence. No Ray is started."""

import re
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.ports import keep_port

from nsh.errors import ClusterError, ConfigError
from nsh.serving.engines import ray_cluster
from nsh.serving.engines.ray_cluster import connected

SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # the first frame of an HTTP/2 server


@pytest.fixture
def listener():
    """A socket that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address_of(server):
    return f"127.0.0.1:{server.getsockname()[1]}"


def connect(address):
    with connected(address):
        raise AssertionError("connected")


@pytest.mark.parametrize(
    "address", ["", "auto", "10.0.0.1", "ray://10.0.0.1:10001", "host:0", "host:70000", "a b:1", ":1"]
)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ConfigError, match="allowed are local, and HOST:PORT of the head"):
        connect(address)


@pytest.fixture
def nobody():
    """An address at which nothing listens."""
    with keep_port() as port:
        yield f"127.0.0.1:{port}"


def test_where_nobody_listens_the_reason_is_named(nobody):
    with pytest.raises(ClusterError, match=rf"no Ray answers at {nobody} \(Connection refused\): `ray status`"):
        connect(nobody)


def test_a_host_that_is_unknown_is_named():
    with pytest.raises(ClusterError, match=r"no Ray answers at no-such-host\.invalid:6379"):
        connect("no-such-host.invalid:6379")


def test_who_says_nothing_is_not_waited_for(listener, monkeypatch):
    monkeypatch.setattr(ray_cluster, "PATIENCE", 0.1)
    with pytest.raises(ClusterError, match=r"no Ray answers at .* \(timed out\)"):
        connect(address_of(listener))


WATCHING = """
import sys, threading
from nsh.serving.engines import ray_cluster

ray_cluster.PATIENCE, ray_cluster.LOST = 0.5, 3
with ray_cluster._watched(sys.argv[1]):
    print("here", flush=True)
    threading.Event().wait()
"""


def test_a_head_that_is_lost_ends_the_process_with_one_sentence(listener):
    address = address_of(listener)
    lost = threading.Event()
    threading.Thread(target=answer_until, args=(lost, listener), daemon=True).start()
    command = [sys.executable, "-c", WATCHING, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "here\n"
        lost.set()
        rest, errors = run.communicate()
    assert (run.returncode, rest) == (2, "")
    assert errors.strip() == (
        f"error: Ray at {address} failed (its head no longer answers): what is written stays, run the same command "
        "again to go on"
    )


def answer_until(lost, server):
    """Answer as the head of a cluster does, until it is lost."""
    server.settimeout(0.05)
    while not lost.is_set():
        with suppress(OSError):  # nobody asks now, or gave up, on a busy machine
            connection, _ = server.accept()
            with connection:
                connection.sendall(SETTINGS)
                while connection.recv(1024):
                    pass
    server.close()


def test_a_cluster_that_wants_a_token_is_said_to():
    pytest.importorskip("ray", reason="Ray is not installed")
    from_ray = RuntimeError("Last connection error: ... RPC error: InvalidAuthToken: Authentication token is missing")
    refused = pytest.raises(ClusterError, match=r"Ray at a:1 failed \(it wants a token: set RAY_AUTH_MODE=token, ")
    with refused, ray_cluster.translated("a:1", ConnectionError):
        raise ConnectionError("Failed to connect to Ray cluster at a:1") from from_ray


def test_a_web_server_is_no_ray():
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(ClusterError, match=r"no Ray answers at .* \(something else answers\)"):
            connect(f"127.0.0.1:{server.server_port}")
        thread.join()


def test_the_command_says_so_in_one_sentence_and_writes_nothing(nobody, tmp_path, golden_encoder):
    (tmp_path / "a.jpg").write_bytes(b"bad")
    command = [sys.executable, "-m", "nsh.cli", "encode", "a.jpg", "--model", golden_encoder, "--out", "codes"]
    run = subprocess.run([*command, "--ray", nobody], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert re.fullmatch(rf"error: no Ray answers at {nobody} .*\n", run.stderr)
    assert not (tmp_path / "codes").exists()
