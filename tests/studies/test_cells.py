import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.waiting import PATIENCE, wait_until

from nsh.errors import ConfigError
from nsh.studies import cells as module
from nsh.studies.cells import make_cell, read_result, read_results, run_cells


def run(cells, workspace, *, jobs=1):
    lines = []
    return run_cells(cells, workspace, jobs=jobs, say=lines.append), lines


def test_cells_are_measured_once_and_found_again(quick, workspace):
    cells = [make_cell(quick, "itq", bits=8, seed=seed) for seed in (0, 1)]
    assert read_results(cells, workspace) == []
    failures, lines = run(cells, workspace, jobs=2)
    assert failures == []
    assert lines[0] == "digits: 2 cells, 0 of them measured before"
    assert lines[1].startswith("[1/2, about ")
    assert "itq 8 bits seed " in lines[1]
    assert "[2/2, about 0 s left]" in lines[2]
    first, second = read_results(cells, workspace)
    assert (first.cell.seed, second.cell.seed) == (0, 1)
    assert first.figures["mAP_at_1000"] == pytest.approx(first.average_precision().mean())
    assert first.figures.keys() >= {"P_at_1000", "P_at_H2", "train_seconds"}
    assert first.query_codes().shape == (60, 1)
    assert run(cells, workspace) == ([], ["digits: 2 cells, 2 of them measured before"])


def test_a_result_belongs_to_parameters_data_and_code(quick, params, workspace, measure_here, monkeypatch):
    cell = make_cell(quick, "itq", bits=8, seed=0)
    measure_here([cell], workspace)
    assert read_result(cell, workspace) is not None
    assert read_result(make_cell(params, "itq", bits=8, seed=0), workspace) is None
    assert read_result(make_cell(quick, "itq", bits=9, seed=0), workspace) is None
    assert read_result(cell, replace(workspace, digest="e" * 64)) is None
    monkeypatch.setattr(module, "_code", lambda method: "another")
    assert read_result(cell, workspace) is None


def test_the_name_of_a_change_is_for_the_eye(quick, params):
    changed = make_cell(params, "itq", bits=8, seed=0, changed={"iterations": 2})
    assert changed.request == make_cell(quick, "itq", bits=8, seed=0).request
    assert changed.name == "itq iterations=2 8 bits seed 0"


def test_a_cell_that_fails_is_reported_and_the_others_go_on(quick, workspace):
    cells = [make_cell(quick, "itq", bits=bits, seed=0) for bits in (65, 8)]  # more bits than pixels
    failures, lines = run(cells, workspace)
    assert len(failures) == 1
    assert failures[0].startswith("itq 65 bits seed 0 failed: error: ")
    assert [result.cell.bits for result in read_results(cells, workspace)] == [8]
    assert failures[0] in lines[1]
    log = failures[0].rpartition("(")[2].rstrip(")")
    assert "error: " in Path(log).read_text()


def test_a_killed_cell_is_told_from_one_that_failed(quick, workspace, monkeypatch):
    monkeypatch.setattr(module, "_code", lambda method: "another")
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    started = subprocess.Popen
    monkeypatch.setattr(
        module.subprocess, "Popen", lambda command, **rest: started([sys.executable, "-c", kill], **rest)
    )
    failures, _ = run([make_cell(quick, "itq", bits=8, seed=0)], workspace)
    assert "killed by signal 9, perhaps for memory" in failures[0]


SLOW = """
from pathlib import Path
from nsh.config import change, read_params
from nsh.system.command import run_command
from nsh.studies.cells import make_cell, run_cells
from nsh.studies.workspace import Workspace
params = change(read_params(), {"methods.itq.iterations": 2, "methods.nsh.epochs": 100_000, "methods.nsh.d_z": 8})
cells = [make_cell(params, method, bits=8, seed=0) for method in ("itq", "nsh")]
workspace = Workspace("digits", Path(FOLDER), "d" * 64)
run_command(lambda: print(run_cells(cells, workspace, jobs=1, say=lambda line: print(line, flush=True))))
"""


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_loses_the_cell_in_work_alone(quick, workspace, measure_here, tmp_path, stop, code):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    measure_here([make_cell(quick, "itq", bits=8, seed=0)], workspace)
    script = SLOW.replace("FOLDER", repr(str(workspace.folder)))
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        env=os.environ | {"TMPDIR": str(scratch)},
    )
    assert "2 cells, 1 of them measured before" in process.stdout.readline()
    wait_until(lambda: list(scratch.rglob("*.ckpt")))  # a first epoch is over
    assert running(str(workspace.folder))
    (os.killpg if stop == signal.SIGINT else os.kill)(process.pid, stop)  # as a terminal does, as a scheduler does
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert "run the same command again to go on" in errors
    left = sorted(path.name for path in (workspace.folder / "cells").iterdir())
    assert [name.rpartition("-")[0] for name in left] == ["itq-8-0"]
    assert not running(str(workspace.folder))


def test_a_cell_ends_with_the_process_that_asked_for_it(workspace):
    script = SLOW.replace("FOLDER", repr(str(workspace.folder)))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
    wait_until(lambda: running(str(workspace.folder)))
    process.kill()
    process.wait()
    wait_until(lambda: not running(str(workspace.folder)))


def running(text):
    listed = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if text in line and "nsh.studies.measure" in line]


@pytest.mark.parametrize(
    ("method", "changed", "message"),
    [
        ("itg", {}, "found method 'itg', allowed are nsh, itq"),
        ("nsh", {"taus": 1}, "methods.nsh.taus: no such parameter"),
        ("nsh", {"tau_c": 0}, "methods.nsh.tau_c: found 0"),
        ("nsh", {"m": 50}, "m = 50 positives in a list of 50"),
    ],
)
def test_a_cell_that_cannot_be_is_refused_before_any_is_measured(params, method, changed, message):
    with pytest.raises(ConfigError, match=message):
        make_cell(params, method, bits=8, seed=0, changed=changed)


def test_estimates_are_of_the_cells_still_to_do(monkeypatch):
    now = iter([100.0, 130.0, 190.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(now))
    clock = module._Clock(6)
    assert clock.tick() == "[1/6, about 2 min left]"
    assert clock.tick() == "[2/6, about 3 min left]"
