"""The command `nsh` as its user starts it."""

import re
import subprocess
import sys

import pytest
import typer.main

from nsh.cli import app


def nsh(*arguments, folder):
    command = [sys.executable, "-m", "nsh.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["track", "--help"], ["registry", "promote", "--help"]])
def test_help_is_there_without_a_project(tmp_path, arguments):
    result = nsh(*arguments, folder=tmp_path)
    assert result.returncode == 0
    assert "Usage:" in result.stdout
    assert result.stderr == ""


def test_a_strange_folder_is_one_sentence_and_exit_code_2(tmp_path):
    result = nsh("track", "sync", folder=tmp_path)
    assert result.returncode == 2
    assert result.stderr == "error: params.yaml is not here: run the command in the project's folder\n"
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_command_is_refused(tmp_path):
    result = nsh("trak", folder=tmp_path)
    assert result.returncode == 2
    assert "No such command 'trak'" in result.stderr


def helps(command):
    yield command.help or ""
    for parameter in command.params:
        yield getattr(parameter, "help", None) or ""
    for child in getattr(command, "commands", {}).values():
        yield from helps(child)


def test_no_word_of_the_help_is_lost_as_markup():
    """Help is Markdown, in which <word> is a tag and is not shown."""
    texts = list(helps(typer.main.get_command(app)))
    assert len(texts) > 40
    assert [text for text in texts if re.search(r"<\w+>", text)] == []
