import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE, wait_until

from nsh.studies import runner as module
from nsh.studies.runner import run_trials
from nsh.studies.trials import make_trial, read_results


def run(trials, setting, *, jobs=1):
    lines = []
    return run_trials(trials, setting, jobs=jobs, say=lines.append), lines


def test_trials_are_measured_once_and_one_that_fails_stops_no_other(quick, setting):
    trials = [
        make_trial(quick, "nsh", bits=8, seed=0, changed={"batch": 81}),  # more than there are training images
        make_trial(quick, "itq", bits=8, seed=0),
    ]
    failures, lines = run(trials, setting, jobs=2)
    assert lines[0] == "tiny: 2 trials, 0 of them measured before"
    assert lines[1].startswith("[1/2, about ")
    assert "[2/2, about 0 s left]" in lines[2]
    assert len(failures) == 1
    assert failures[0].startswith("nsh batch=81 8 bits seed 0 failed: error: found 80 training images")
    assert any(failures[0] in line for line in lines[1:])
    assert "error: " in Path(failures[0].rpartition("(")[2].rstrip(")")).read_text()
    assert any("itq 8 bits seed 0: mAP@1000 0." in line for line in lines[1:])
    assert [result.trial for result in read_results(setting)] == trials[1:]
    assert run(trials[1:], setting) == ([], ["tiny: 1 trials, 1 of them measured before"])


def test_a_killed_trial_is_told_from_one_that_failed(quick, setting, monkeypatch):
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    started = subprocess.Popen
    monkeypatch.setattr(
        module.subprocess, "Popen", lambda command, **rest: started([sys.executable, "-c", kill], **rest)
    )
    failures, _ = run([make_trial(quick, "itq", bits=8, seed=0)], setting)
    assert "killed by signal 9, perhaps for memory" in failures[0]


SLOW = """
import sys
from pathlib import Path
from nsh.config import change, read_params
from nsh.project.paths import Project
from nsh.system.command import run_command
from nsh.studies.runner import run_trials
from nsh.studies.setting import Setting
from nsh.studies.trials import make_trial
params = change(read_params(), {"methods.itq.iterations": 2, "methods.nsh.epochs": 100_000, "methods.nsh.d_z": 8})
trials = [make_trial(params, method, bits=8, seed=0) for method in ("itq", "nsh")]
setting = Setting("tiny", Project(Path(sys.argv[1])), "d" * 64)
run_command(lambda: print(run_trials(trials, setting, jobs=1, say=lambda line: print(line, flush=True))))
"""


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_an_interruption_loses_the_trial_in_work_alone(quick, setting, leave, stop, code):
    leave([make_trial(quick, "itq", bits=8, seed=0)])
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(setting.project.folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert "2 trials, 1 of them measured before" in process.stdout.readline()
    wait_until(lambda: list(setting.trials.rglob("*.ckpt")))  # a first epoch is over
    assert running(str(setting.project.folder))
    (os.killpg if stop == signal.SIGINT else os.kill)(process.pid, stop)  # as a terminal does, as a scheduler does
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    wait_until(lambda: not running(str(setting.project.folder)))
    if stop == signal.SIGKILL:  # nobody is left to say it, or to delete what the trial said
        return
    assert "run the same command again to go on" in errors
    assert [path.name.rpartition("-")[0] for path in setting.trials.iterdir()] == ["itq-8-0"]


def running(text):
    listed = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if text in line and "nsh.studies.measure" in line]
