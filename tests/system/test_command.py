import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

SCRIPT = """
import errno, os, signal, sys, time
from nsh.system.command import run_command, run_stage
from nsh.errors import CodesError

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


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("EACCES", "give yourself the right to it"),
        ("EROFS", "mount it for writing"),
        ("EISDIR", "name a file"),
        ("ENOTDIR", "one of its parts is a file"),
        ("EXDEV", "check the path"),
    ],
)
@pytest.mark.parametrize("ending", ["run_command(main)", "run_stage(main)"])
def test_a_place_that_cannot_be_used_is_one_sentence(tmp_path, code, said, ending):
    done = run(tmp_path, f"raise OSError(errno.{code}, os.strerror(errno.{code}), 'codes/a.npy')", ending=ending)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: codes/a.npy cannot be used (")
    assert said in line


def test_links_that_lead_back_to_themselves_are_one_sentence(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    done = run(tmp_path, "from pathlib import Path; Path('loop').resolve(); Path('loop').read_bytes()")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith("mend the links, they lead back to themselves\n")


def test_another_fault_of_the_program_keeps_its_traceback(tmp_path):
    done = run(tmp_path, "raise RuntimeError('a bug')")
    assert done.returncode == 1
    assert done.stderr.endswith("RuntimeError: a bug\n")


def test_a_stage_that_cannot_note_its_time_says_so(tmp_path):
    (tmp_path / ".cache").write_text("a file")
    done = run(tmp_path, "pass", ending="run_stage(main)")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("error: .cache")


@pytest.mark.parametrize("lines", [1, 100_000])
@pytest.mark.parametrize("printer", ["print", "import typer; typer.echo"])
def test_a_reader_that_goes_away_ends_it_quietly(tmp_path, lines, printer):
    """`head` has seen enough: whether that shows while it prints, or only at the end."""
    script = tmp_path / "stage.py"
    imported, _, call = printer.rpartition("; ")
    body = f"for _ in range({lines}): {call}('a line')"
    script.write_text(f"{imported}\n" + SCRIPT.format(body=body, ending="run_command(main)"))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, str(script)], stdout=writing, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_output_that_finds_no_room_is_no_success(tmp_path):
    script = tmp_path / "stage.py"
    script.write_text(SCRIPT.format(body="print('a line')", ending="run_command(main)"))
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, str(script)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (
        2,
        "error: the disk is full: free some space and run the same command again\n",
    )


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
    assert (done.returncode, done.stderr) == (130, "interrupted: run the same command again to go on\n")


def test_ctrl_c_in_a_command_of_nsh_says_the_same(tmp_path):
    """typer catches it, and exits without a word."""
    ending = "import typer; app = typer.Typer(); app.command()(main); run_command(app)"
    done = run(tmp_path, "raise KeyboardInterrupt", ending=ending)
    assert (done.returncode, done.stderr.strip()) == (130, "interrupted: run the same command again to go on")


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
