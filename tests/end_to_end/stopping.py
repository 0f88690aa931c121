"""Stops a training of the project behind its first checkpoint, and says what went on from there."""

import os
import re
import signal
import subprocess
import time

from tests.end_to_end.project import Project

EPOCH = 100 // 20  # steps: images to train on, by the batch
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


def stop_in_training(project: Project, *command: str, how: str) -> str:
    """Stop DVC once the training of NSH has a checkpoint: what it printed until no process of it was left."""
    waiting, wait = project.folder / "src/sitecustomize.py", project.folder / "wait"
    waiting.write_text(WAITING)
    wait.touch()
    process = subprocess.Popen(
        command,
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
    wait.unlink()
    waiting.unlink()
    return printed


def check_it_went_on(project: Project, stopped: str, again: str, *, epochs: int) -> None:
    """Behind the first epoch, with which it was stopped."""
    assert "run the same command again to go on" in stopped
    shown = {int(total) for total in re.findall(r"train: +\d+%.*?/(\d+) \[", again)}
    assert shown == {(epochs - 1) * EPOCH}
    assert len(project.json("models/nsh-16/history.json")) == epochs
