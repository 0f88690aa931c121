from pathlib import Path

import pytest

from nsh.core.metrics.estimate import estimate_map, find_related
from nsh.errors import DataError
from nsh.project.embeddings import Embeddings
from nsh.project.projected import project_parts
from nsh.studies import estimate as module
from nsh.studies.estimate import correlate
from nsh.studies.trials import make_trial, read_result

METHODS = ("itq", "lsh", "pcah", "sh")


@pytest.fixture
def command(start_study, quick):
    """`make estimate`; gives the section."""
    run = start_study(module, quick)

    def write():
        run()
        return Path("docs/results.md").read_text().split("<!-- cifar10-estimate -->")[1]

    return write


def test_every_figure_is_correlated_at_every_length(command, quick, leave, setting):
    trials = [make_trial(quick, method, bits=bits, seed=0) for bits in (16, 32) for method in METHODS]
    leave(trials)
    section = command()
    rows = {row[1].strip(): row[2:-1] for row in (line.split("|") for line in section.splitlines() if "|" in line)}
    assert rows["methods"] == [" 4 ", " 4 "]
    projected = project_parts(Embeddings(setting.project.embed))
    related = find_related(projected["query"], projected["gallery"])
    results = [read_result(trial, setting) for trial in trials[:4]]
    estimates = [
        estimate_map((found.codes("query"), found.codes("gallery")), related, k=1000).value for found in results
    ]
    expected = correlate(estimates, [found.metrics["mAP_at_1000"] for found in results])
    assert float(rows["estimated mAP"][0]) == pytest.approx(expected, abs=0.005)
    assert "make estimate ROOT=<CIFAR-10>" in section


def test_a_correlation_is_of_ranks_and_needs_something_to_rank():
    assert correlate([1, 2, 3, 4], [1, 20, 300, 4000]) == pytest.approx(1)
    assert correlate([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert correlate([1, 1, 1], [1, 2, 3]) is None
    assert correlate([1, 2], [1, 2]) is None


def test_with_nothing_measured_the_command_says_what_to_run_before(command):
    with pytest.raises(DataError, match="run `make table` before"):
        command()
