import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.waiting import PATIENCE

from nsh.errors import TrackingError
from nsh.tracking.store import (
    DEFAULTS,
    UnreachableStoreError,
    open_client,
    open_store,
    plain_errors,
    project_root,
    store_uri,
)

FIRST_RUNS = """
import os, sys
from pathlib import Path
from mlflow import MlflowClient
from nsh.tracking.store import open_store

def begin(bits):
    store = open_store(Path(sys.argv[1]), experiment="folder")
    store.client.create_run(store.experiment_id, run_name=f"nsh-{bits}")

started = []
for bits in (8, 16, 32, 64):
    if process := os.fork():
        started.append(process)
    else:
        begin(bits)
        os._exit(0)
sys.exit(any(os.waitpid(process, 0)[1] for process in started))
"""
"""Processes that begin at once, MLflow being loaded."""


def test_four_processes_share_a_fresh_database(tmp_path):
    environment = {**os.environ, **DEFAULTS}
    subprocess.run([sys.executable, "-c", FIRST_RUNS, tmp_path], check=True, timeout=PATIENCE, env=environment)
    store = open_store(tmp_path, experiment="folder")
    runs = store.client.search_runs([store.experiment_id])
    assert {run.info.run_name for run in runs} == {"nsh-8", "nsh-16", "nsh-32", "nsh-64"}
    assert not list(tmp_path.glob(".mlflow.db*")), "no half-made database stays"


def test_the_default_store_lies_in_the_project(tmp_path):
    assert store_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"


def test_a_queued_experiment_belongs_to_the_project_above(tmp_path):
    copy = tmp_path / ".dvc" / "tmp" / "exps" / "tmpabc"
    copy.mkdir(parents=True)
    assert project_root(copy) == tmp_path
    assert store_uri(copy) == f"sqlite:///{tmp_path}/mlflow.db"
    assert project_root(tmp_path) == tmp_path


def test_a_given_store_is_honoured(tmp_path, monkeypatch):
    for given, expected in [
        ("http://host:5000", "http://host:5000"),
        ("sqlite:///runs/all.db", f"sqlite:///{tmp_path}/runs/all.db"),
        (f"sqlite:///{tmp_path}/x.db", f"sqlite:///{tmp_path}/x.db"),
    ]:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
        assert store_uri(tmp_path) == expected


@pytest.mark.parametrize("given", ["./mlruns", "mlruns", "file:///tmp/mlruns"])
def test_the_old_file_store_is_refused_with_a_way_out(tmp_path, monkeypatch, given):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
    with pytest.raises(TrackingError, match=r"is a folder.*unset it.*migrate-filestore"):
        open_store(tmp_path, experiment="folder")


def test_artifacts_lie_beside_the_database(project):
    store = open_store(project, experiment="folder")
    location = store.client.get_experiment(store.experiment_id).artifact_location
    assert location == (project / "mlartifacts").as_uri()


def test_a_deleted_experiment_says_how_to_restore_it(project):
    store = open_store(project, experiment="folder")
    store.client.delete_experiment(store.experiment_id)
    with pytest.raises(TrackingError, match=f"restore --experiment-id {store.experiment_id}"):
        open_store(project, experiment="folder")


def test_another_experiment_can_be_named(project, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    store = open_store(project, experiment="folder")
    assert store.client.get_experiment(store.experiment_id).name == "mine"


def test_telemetry_is_off(project):
    code = (
        "from nsh.tracking.store import open_client; import sys; open_client(sys.argv[1]); "
        "from mlflow.telemetry.utils import is_telemetry_disabled; print(is_telemetry_disabled())"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{project}/mlflow.db"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"})
    assert output.stdout.strip() == "True"


def test_a_password_is_not_repeated():
    uri = "http://user:secret@host:1"
    with (
        pytest.raises(UnreachableStoreError, match="http://host:1 failed: GET http://host:1/api") as caught,
        plain_errors(uri),
    ):
        raise OSError(f"GET {uri}/api")
    assert "secret" not in str(caught.value)


def test_a_database_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UnreachableStoreError, match="failed"):
        open_client(f"sqlite:///{tmp_path}/file/mlflow.db")


def test_importing_the_package_loads_none_of_what_takes_long():
    code = "import sys, nsh.tracking; print([name for name in ('mlflow', 'scipy', 'torch') if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"


@pytest.fixture
def server():
    """What answers every question as an MLflow server without experiments does."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.dumps({"experiments": []}).encode()
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("variable", ["no_proxy", "NO_PROXY"])
def test_no_proxy_stands_before_a_server_on_this_machine(server, monkeypatch, variable):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv(variable, "example.org")
    client = open_client(f"http://127.0.0.1:{server.server_port}")
    assert client.search_experiments() == []
    assert os.environ["no_proxy"] == "example.org,127.0.0.1"  # others' exceptions stay
    open_client(f"http://127.0.0.1:{server.server_port}")
    assert os.environ["no_proxy"] == "example.org,127.0.0.1"
