"""Progress is for eyes: everything passes through, and a log is not flooded."""

import pytest

from nsh.errors import CodesError
from nsh.project.paths import Pair
from nsh.terminal import say, show_progress, take_no_arguments, take_pair


def test_everything_passes_through_in_order() -> None:
    assert list(show_progress(iter("abc"), desc="letters", total=3)) == ["a", "b", "c"]


def test_a_log_gets_few_lines(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in show_progress(range(100_000), desc="count", total=100_000):
        pass
    written = capfd.readouterr().err
    assert "count" in written
    assert "100%" in written
    assert written.count("count") <= 3


def test_a_said_line_goes_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    say("weights: none")
    assert capfd.readouterr().out == "weights: none\n"


def test_help_tells_what_a_stage_does_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["split.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        take_no_arguments("Stage split: draw the parts.")
    assert "Stage split: draw the parts." in capsys.readouterr().out


def test_an_argument_that_a_stage_does_not_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["split.py", "--seed", "1"])
    with pytest.raises(SystemExit, match="2"):
        take_no_arguments("Stage split: draw the parts.")


def test_a_pair_is_read_from_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", "--method", "nsh", "--bits", "16"])
    assert take_pair("Train.") == Pair("nsh", 16)


@pytest.mark.parametrize("bits", ["0", "513"])
def test_a_length_that_no_code_has_is_refused(monkeypatch: pytest.MonkeyPatch, bits: str) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", "--method", "nsh", "--bits", bits])
    with pytest.raises(CodesError, match=f"a code cannot have {bits} bits"):
        take_pair("Train.")
