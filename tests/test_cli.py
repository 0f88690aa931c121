"""The command `nsh`."""

import re
import shutil
from pathlib import Path

import pytest
import typer.main
from PIL import Image
from tests.commands import run_nsh
from typer.testing import CliRunner

from nsh.cli import app
from nsh.serving.index import Index

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests/golden/encoder.onnx"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("arguments", [["--help"], ["track", "--help"], ["registry", "promote", "--help"]])
def test_help_is_there_without_a_project(folder, arguments):
    result = run_nsh(*arguments)
    assert result.returncode == 0
    assert "Usage:" in result.stdout
    assert result.stderr == ""


def test_a_strange_folder_is_one_sentence_and_exit_code_2(folder):
    result = run_nsh("track", "sync")
    assert result.returncode == 2
    assert result.stderr == "error: params.yaml is not here: run the command in the project's folder\n"
    assert list(folder.iterdir()) == []


def test_an_unknown_command_is_refused(folder):
    result = run_nsh("trak")
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


def test_the_parameters_are_checked_whole(folder):
    text = (ROOT / "params.yaml").read_text()
    (folder / "params.yaml").write_text(text)
    (folder / "data" / "local").mkdir(parents=True)
    good = run_nsh("params", "check")
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.startswith("params.yaml has no mistake: nsh_plus, nsh at 16, 32, 64 bits")
    (folder / "params.yaml").write_text(text.replace("[nsh_plus, nsh]", "nsh").replace("[16, 32, 64]", "[16.5]"))
    bad = run_nsh("params", "check")
    assert (bad.returncode, bad.stdout) == (2, "")
    header, *mistakes = bad.stderr.splitlines()
    assert header == "error: params.yaml has 2 mistake(s):"
    assert [line.split(":")[0].strip() for line in mistakes] == ["matrix.methods", "matrix.bits.0"]


def test_a_folder_of_images_that_is_not_there_is_said_before_dvc_meets_it(folder):
    text = (ROOT / "params.yaml").read_text()
    (folder / "params.yaml").write_text(text.replace("root: data/local", "root: data/photos"))
    result = run_nsh("params", "check")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: dataset.root in params.yaml is 'data/photos', and there is no such folder")
    assert "docs/data-sets.md" in result.stderr


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user's home, with an encoder and an index in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copy(GOLDEN, tmp_path)
    Index.create(tmp_path / "index", bits=16, encoder_identity="0" * 64)
    return tmp_path


@pytest.mark.parametrize("words", [["info", "~/encoder.onnx"], ["index", "info", "~/index"]])
def test_home_is_found_where_no_shell_has_written_it_out(home, words):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("words", "environment"),
    [(["--model=~/encoder.onnx", "--out=~/codes"], {}), (["--out", "~/codes"], {"NSH_MODEL": "~/encoder.onnx"})],
)
def test_home_is_found_in_options_and_in_the_environment(home, words, environment):
    (home / "images").mkdir()
    Image.new("RGB", (8, 8)).save(home / "images" / "black.png")
    result = CliRunner().invoke(app, ["encode", "~/images", *words], env=environment)
    assert result.exit_code == 0, result.output
    assert list((home / "codes").glob("*.npy"))
