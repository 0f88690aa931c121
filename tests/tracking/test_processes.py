"""Runs whose process died without a word, told from those of processes that live."""

import os
import subprocess
import sys

import pytest

from nsh.project.paths import Pair
from nsh.tracking import sync, training_run
from nsh.tracking.processes import PROC, has_ended, this_process
from nsh.tracking.runs import PROCESS
from nsh.tracking.store import open_store

pytestmark = pytest.mark.skipif(not PROC.exists(), reason="processes are told apart by /proc")

OTHER = """
import sys, time
from nsh.tracking.processes import this_process
print(this_process(), flush=True)
input()
"""


def start_other():
    process = subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


@pytest.fixture
def other():
    """Another process that lives, and its name."""
    process, name = start_other()
    yield process, name
    process.kill()
    process.communicate()


def replace(name, place, value):
    parts = name.split("/")
    parts[place] = value
    return "/".join(parts)


def test_a_process_has_ended_when_it_is_gone(other):
    process, name = other
    assert not has_ended(name)
    process.kill()
    process.wait()
    assert has_ended(name)


def test_a_process_that_nobody_has_waited_for_has_ended(other):
    process, name = other
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
    assert has_ended(name)


def test_what_cannot_be_known_has_not_ended():
    host, boot, namespace, start = 0, 1, 2, 4
    mine = this_process()
    assert not has_ended(mine)
    assert has_ended(replace(mine, start, "1"))  # the number came back
    assert has_ended(replace(mine, boot, "an earlier start of this machine"))
    for place in (host, namespace):
        assert not has_ended(replace(replace(mine, start, "1"), place, "another"))
    assert not has_ended("")


def test_a_run_ends_as_killed_when_its_process_is_gone(project, params, finish, other):
    store = open_store(project, experiment="folder")
    alive, dead, elsewhere = other[1], replace(this_process(), 4, "1"), replace(replace(this_process(), 4, "1"), 0, "x")
    runs = {name: start_run(store, name) for name in (alive, dead, elsewhere)}
    untagged = store.client.create_run(store.experiment_id).info.run_id
    far = store.client.create_run(store.client.create_experiment("cifar10"), tags={PROCESS: dead}).info.run_id
    sync(project, params)
    found = {run_id: store.client.get_run(run_id).info for run_id in (*runs.values(), untagged, far)}
    ended = {run_id for run_id, info in found.items() if info.status == "KILLED"}
    assert ended == {runs[dead], far}
    assert found[runs[dead]].end_time == 5000  # its last sign of life
    assert {info.status for run_id, info in found.items() if run_id not in ended} == {"RUNNING"}


def start_run(store, process):
    run_id = store.client.create_run(store.experiment_id, start_time=1000, tags={PROCESS: process}).info.run_id
    for step, time in enumerate((3000, 5000)):
        store.client.log_metric(run_id, "train/loss", 1.0, timestamp=time, step=step)
    return str(run_id)


def test_the_next_training_ends_it_too(project, params, finish):
    store = open_store(project, experiment="folder")
    dead = start_run(store, replace(this_process(), 4, "1"))
    with training_run(project, params, pair=Pair("nsh", 16)):
        finish("nsh", 16)
    assert store.client.get_run(dead).info.status == "KILLED"
