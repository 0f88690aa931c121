import math
import os
import signal
import subprocess
import sys

import pytest
from tests.waiting import PATIENCE

from nsh.config import change
from nsh.errors import NonFiniteLoss, TrackingError
from nsh.project.paths import Pair, Project
from nsh.system.files import sha256_file
from nsh.tracking import live, training_run
from nsh.tracking.store import open_store

PAIR = Pair("nsh", 16)


def only_run(project):
    store = open_store(project, experiment="folder")
    (run,) = store.client.search_runs([store.experiment_id])
    return run, store.client


def fail(project, params, error):
    """One epoch, then `error`: raised, or the record that raises it."""
    with train(project, params) as report:
        report({"epoch": 1, "loss": 2.5})
        if isinstance(error, dict):
            report(error)
        raise error


def train(project, params):
    return training_run(project, params, pair=PAIR)


def test_the_curve_is_there_while_training_goes_on(project, params, finish):
    with train(project, params) as report:
        report({"epoch": 1, "loss": 2.5, "note": "not a number"})
        run, _ = only_run(project)
        assert run.info.status == "RUNNING"
        assert run.data.metrics == {"train/loss": 2.5}
        finish("nsh", 16)
    run, _ = only_run(project)
    assert run.info.status == "FINISHED"
    assert run.data.tags["head_sha256"] == sha256_file(Project(project).of(PAIR).head)
    assert 0 < run.data.metrics["train_seconds"] <= (run.info.end_time - run.info.start_time) / 1000 + 1


def test_records_of_short_epochs_share_a_request(project, params, finish, monkeypatch):
    requests, send = [], live.log_metrics
    monkeypatch.setattr(live, "log_metrics", lambda *sent: (requests.append(sent), send(*sent)))
    monkeypatch.setattr(live, "SEND_EVERY", math.inf)
    with train(project, params) as report:
        for epoch in range(1, 6):
            report({"epoch": epoch, "loss": 1 / epoch})
        finish("nsh", 16)
    run, client = only_run(project)
    assert [point.step for point in client.get_metric_history(run.info.run_id, "train/loss")] == [1, 2, 3, 4, 5]
    assert len(requests) == 2  # the first epoch at once, the others at the end


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError, "FAILED"), (KeyboardInterrupt, "KILLED"), (SystemExit, "KILLED")]
)
def test_a_run_that_does_not_end_says_how(project, params, error, status):
    with pytest.raises(error):
        fail(project, params, error())
    run, _ = only_run(project)
    assert run.info.status == status
    assert "head_sha256" not in run.data.tags
    assert "nonfinite" not in run.data.tags


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_ends_the_run(project, params, bad):
    with pytest.raises(NonFiniteLoss, match="nsh-16: loss is not finite in epoch 2"):
        fail(project, params, {"epoch": 2, "loss": bad})
    run, client = only_run(project)
    assert run.info.status == "FAILED"
    assert run.data.tags["nonfinite"] == "true"
    assert [point.value for point in client.get_metric_history(run.info.run_id, "train/loss")] == [2.5]


def test_a_dead_store_is_one_warning(project, params, finish, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with train(project, params) as report:
        for epoch in (1, 2, 3):
            report({"epoch": epoch, "loss": 1.0})
        finish("nsh", 16)
    assert capsys.readouterr().err.count("warning") == 1


def test_records_wait_for_a_store_that_comes_back(project, params, finish, monkeypatch, capsys):
    send, broken = live.log_metrics, [True]

    def flaky(*arguments):
        if broken[0]:
            raise ConnectionError("gone for a while")
        send(*arguments)

    monkeypatch.setattr(live, "log_metrics", flaky)
    monkeypatch.setattr(live, "RETRY_AFTER", 0.0)
    with train(project, params) as report:
        report({"epoch": 1, "loss": 3.0})
        report({"epoch": 2, "loss": 2.0})
        broken[0] = False
        report({"epoch": 3, "loss": 1.0})
        finish("nsh", 16)
    run, client = only_run(project)
    points = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(point.step, point.value) for point in points] == [(1, 3.0), (2, 2.0), (3, 1.0)]
    assert capsys.readouterr().err.count("warning") == 1


def test_a_store_that_is_none_is_said_before_training(project, params, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "./mlruns")
    with pytest.raises(TrackingError, match="mlflow migrate-filestore"), train(project, params):
        pytest.fail("training began")


def test_a_run_of_another_tool_in_the_environment_is_left_alone(project, params, finish, monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "0123456789abcdef0123456789abcdef")
    with train(project, params) as report:
        report({"epoch": 1, "loss": 2.5})
        finish("nsh", 16)
    run, _ = only_run(project)
    assert run.info.run_id != os.environ["MLFLOW_RUN_ID"]


def test_the_run_names_the_commit(repository, params, finish):
    with train(repository, params):
        finish("nsh", 16)
    run, _ = only_run(repository)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True)
    assert run.data.tags["git_commit"] == commit.stdout.strip()
    assert run.data.tags["git_dirty"] == "false"


def run_name(project, params, finish):
    with train(project, params):
        finish("nsh", 16)
    run, client = only_run(project)
    client.delete_run(run.info.run_id)
    return run.info.run_name, run.data.tags


def test_runs_are_told_apart_by_what_differs_from_the_commit(repository, params, finish, monkeypatch):
    name, tags = run_name(repository, params, finish)
    assert name == "nsh-16"
    assert "changed" not in tags
    assert "dvc_experiment" not in tags
    assert tags["mlflow.source.type"] == "LOCAL"

    monkeypatch.setenv("DVC_EXP_NAME", "fungi-sari")
    other = change(params, {"methods.nsh.tau_c": 0.2, "methods.itq.iterations": 9, "matrix.bits": [16]})
    name, tags = run_name(repository, other, finish)
    assert name == "nsh-16 tau_c=0.2 (fungi-sari)"
    assert (tags["changed"], tags["dvc_experiment"]) == ("methods.nsh.tau_c=0.2", "fungi-sari")

    many = {"split.train": 5, "split.seed": 1, "embed.views": 3, "evaluate.k": 4, "methods.nsh.init": "itq"}
    name, tags = run_name(repository, change(params, many), finish)
    assert name == "nsh-16 train=5 seed=1 views=3 +2 more (fungi-sari)"
    assert "methods.nsh.init=itq" in tags["changed"]


def test_a_user_without_a_name_trains_too(project, params, finish, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)  # a container's, that is in no /etc/passwd
    _, tags = run_name(project, params, finish)
    assert "mlflow.user" not in tags


SCRIPT = """
import sys, time
from pathlib import Path
from nsh.config import read_params
from nsh.project.paths import Pair
from nsh.system.command import run_command
from nsh.tracking import live, training_run

def main():
    folder = Path(sys.argv[1])
    params = read_params(folder / "params.yaml")
    with training_run(folder, params, pair=Pair("nsh", 16)) as report:
        report({"epoch": 1, "loss": 2.0})
        print("trained", flush=True)
        while True:
            time.sleep(0.05)  # signal.pause() would sleep on after a signal that came just before it

run_command(main)
"""


def test_sigterm_ends_the_run_as_killed(project):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, project], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "trained\n"
    process.send_signal(signal.SIGTERM)
    process.stdout.close()
    assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    run, _ = only_run(project)
    assert run.info.status == "KILLED"
