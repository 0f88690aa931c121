"""Progress is for eyes: everything passes through, and a log is not flooded."""

import pytest

from nsh.terminal import say, show_progress


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
