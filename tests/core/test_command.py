import json
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from tests.waiting import PATIENCE

SCRIPT = """
import errno, os, signal, sys, time
from nsh.core.command import run_command, run_stage
from nsh.core.errors import CodesError

def main():
    {body}

{ending}
"""


def run(tmp_path, body, *, ending="run_command(main)", arguments=()):
    """Run a command with `body` as its main in a process of its own: signal handlers must not leak into the tests."""
    (tmp_path / "params.yaml").write_text("a: 1")
    script = tmp_path / "stage.py"
    script.write_text(SCRIPT.format(body=textwrap.indent(textwrap.dedent(body), "    ").strip(), ending=ending))
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_success_is_silent(tmp_path):
    done = run(tmp_path, "pass")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_error_of_the_users_is_one_message_and_exit_code_two(tmp_path):
    done = run(tmp_path, "raise CodesError('no codes: encode first')")
    assert (done.returncode, done.stderr) == (2, "error: no codes: encode first\n")


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT"])
def test_a_full_disk_names_the_file_and_exits_two(tmp_path, code):
    done = run(tmp_path, f"raise OSError(errno.{code}, 'no space', 'codes/a.npy')")
    assert done.returncode == 2
    assert done.stderr.startswith("error: the disk is full while writing codes/a.npy: free some space")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("raised", ["PermissionError(errno.EACCES, 'denied')", "ValueError('a bug')"])
def test_a_bug_keeps_its_traceback(tmp_path, raised):
    done = run(tmp_path, f"raise {raised}")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_ctrl_c_exits_130(tmp_path):
    body = """
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
    """
    done = run(tmp_path, body)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_sigterm_exits_143_after_finally(tmp_path):
    body = """
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
    finally:
        print("cleaned up")
    """
    done = run(tmp_path, body)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stdout == "cleaned up\n"
    assert "Traceback" not in done.stderr


def test_a_stage_says_and_notes_its_time_and_a_failed_one_does_not(tmp_path):
    begun = time.monotonic()
    done = run(tmp_path, "time.sleep(0.1)", ending="run_stage(main)", arguments=("--bits", "32"))
    taken = time.monotonic() - begun
    assert done.stdout.split()[1:] == ["s", "stage", "--bits", "32"]
    assert run(tmp_path, "raise CodesError('no')", ending="run_stage(main)").stdout == ""
    (record,) = map(json.loads, (tmp_path / ".cache/nsh/times.jsonl").read_text().splitlines())
    assert record["stage"] == "stage --bits 32"
    assert 0.1 <= record["seconds"] < taken + 0.1  # it is rounded
    assert (tmp_path / ".cache/nsh/params" / record["params"]).read_text() == "a: 1"
