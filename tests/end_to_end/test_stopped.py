"""A training that was stopped goes on where it was, however it was stopped."""

import os
import re
import signal
import subprocess
import time

import yaml
from tests.end_to_end.project import Project

STEPS = 100 // 20  # an epoch: images to train on, by the batch
WAITING = """
import os, sys, time

if os.path.exists("wait") and any(argument.endswith("train.py") for argument in sys.orig_argv):
    from nsh.training.state import TrainingState

    save = TrainingState.save

    def save_and_wait(self, checkpoint):
        save(self, checkpoint)
        while os.path.exists("wait"):
            time.sleep(0.02)

    TrainingState.save = save_and_wait
"""
"""Python runs it as it starts: a training waits behind its first checkpoint as long as there is a file `wait`."""


def stop_in_training(project: Project, how: str) -> str:
    """Stop `dvc repro` once the training has a checkpoint: what it printed until no process of it was left."""
    (project.folder / "src/sitecustomize.py").write_text(WAITING)
    (project.folder / "wait").touch()
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
    printed = process.communicate()[0]  # to the end of the pipe, which the training holds too
    (project.folder / "wait").unlink()
    return printed


def stop_and_go_on(project: Project, how: str, *, epochs: int, target: str) -> set[str]:
    """Stop a training of so many epochs and go on with it; return the stages that ran then, without check."""
    params = yaml.safe_load((project.folder / "params.yaml").read_text())
    params["methods"]["nsh"]["epochs"] = epochs
    (project.folder / "params.yaml").write_text(yaml.safe_dump(params))
    assert "run the same command again to go on" in stop_in_training(project, how)
    again = project.run("dvc", "repro", *([target] if target else []))
    shown = {int(total) for total in re.findall(r"train: +\d+%.*?/(\d+) \[", again)}
    assert shown == {(epochs - 1) * STEPS}  # all but the first epoch's
    assert len(project.json("models/nsh-16/history.json")) == epochs
    return project.stages_run(again) - {"check"}


def test_after_ctrl_c_it_goes_on_and_what_depends_on_it_is_made_again(project: Project) -> None:
    ran = stop_and_go_on(project, "ctrl-c", epochs=20, target="")
    assert ran == {"train@nsh-16", "export@nsh-16", "encode@nsh-16", "evaluate@nsh-16", "compare"}


def test_where_dvc_alone_was_killed_it_goes_on_too(project: Project) -> None:
    assert stop_and_go_on(project, "dvc alone is killed", epochs=21, target="train@nsh-16") == {"train@nsh-16"}
