"""A training that was stopped goes on where it was, however it was stopped."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import yaml
from tests.end_to_end.project import Project, make_project


def stop_in_training(project: Project, how: str) -> str:
    """Stop `dvc repro` once the training has a checkpoint: what it printed until no process of it was left."""
    process = subprocess.Popen(
        ["dvc", "repro", "train@nsh-16"],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C reaches every process of a terminal
    )
    while not any((project.folder / ".cache/nsh/train").glob("*/last.ckpt")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    if how == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.kill()
    return process.communicate()[0]  # to the end of the pipe, which the training holds too


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Ready to be trained."""
    project = make_project(tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("digits"))
    project.run("dvc", "repro", "embed")
    return project


@pytest.mark.parametrize("how", ["ctrl-c", "dvc alone is killed"])
def test_a_training_that_was_stopped_goes_on(project: Project, how: str) -> None:
    epochs = {"ctrl-c": 120, "dvc alone is killed": 121}[how]  # another training each
    params = yaml.safe_load((project.folder / "params.yaml").read_text())
    params["methods"]["nsh"]["epochs"] = epochs
    (project.folder / "params.yaml").write_text(yaml.safe_dump(params))
    shutil.rmtree(project.folder / ".cache/nsh/train", ignore_errors=True)
    output = stop_in_training(project, how)
    assert "run the same command again to go on" in output
    again = project.run("dvc", "repro", "train@nsh-16")
    steps = {int(total) for total in re.findall(r"train: +\d+%.*?/(\d+) \[", again)}
    assert steps
    assert max(steps) < epochs * 100 // 20  # fewer than the whole training has
    assert len(project.json("models/nsh-16/history.json")) == epochs
