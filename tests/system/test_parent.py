"""A stage ends with the DVC that started it: real processes, a real parent that is killed."""

import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of a parent's end on Linux alone")

PARENT = """
import subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]])
"""
STAGE = """
import os, sys
{before}
from nsh.system.command import run_stage
{between}

def main():
    try:
        print("working", flush=True)
        input()
        print("done", flush=True)
    finally:
        print("cleaned up", flush=True)

run_stage(main)
"""
WAIT = "print('starting', flush=True); input()"


def start(tmp_path, *, before="", between="", dvc=True):
    """A parent and the stage it has started, which has said its first word."""
    (tmp_path / "params.yaml").touch()
    (tmp_path / "stage.py").write_text(STAGE.format(before=before, between=between))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DVC")}
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, "stage.py"],
        cwd=tmp_path,
        env=environment | ({"DVC_ROOT": str(tmp_path)} if dvc else {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal or a scheduler does
    )
    assert process.stdout.readline() in ("working\n", "starting\n")
    return process


def end(process, how):
    """Kill the parent alone, then let the stage go on: what it says until it ends."""
    process.send_signal(how)
    process.wait()
    try:
        process.stdin.write("go on\n")
        process.stdin.close()
    except BrokenPipeError:  # it has ended before
        pass
    with process.stdout:
        return process.stdout.read()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_stage_ends_with_its_dvc_and_cleans_up(tmp_path, how):
    process = start(tmp_path)
    process.send_signal(how)
    process.wait()
    with process.stdout:
        assert process.stdout.read() == "cleaned up\n"  # to the end of the file: no process has it open any more
    process.stdin.close()


@pytest.mark.parametrize("place", ["before", "between"])
def test_a_dvc_that_ends_while_its_stage_is_starting(tmp_path, place):
    assert end(start(tmp_path, **{place: WAIT}), signal.SIGKILL) == ""


def test_what_dvc_did_not_start_goes_on(tmp_path):
    assert end(start(tmp_path, dvc=False), signal.SIGKILL).splitlines()[:2] == ["done", "cleaned up"]
