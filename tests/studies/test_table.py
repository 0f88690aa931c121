import csv
import itertools
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nsh.config import change
from nsh.config.declarations import read_declaration
from nsh.core.metrics import cosine_map
from nsh.data.split import read_part
from nsh.errors import ConfigError, TrainingError
from nsh.methods import METHODS
from nsh.studies import ceiling as ceiling_module
from nsh.studies import command as shared
from nsh.studies import table as module
from nsh.studies.ceiling import measure_ceiling
from nsh.studies.record import make_line
from nsh.studies.rows import ROWS, make_controls
from nsh.studies.table import summarise, table_markdown
from nsh.studies.trials import make_trial

CEILING = {"cosine": {"mAP_at_1000": 0.531}, "whitened": {"mAP_at_1000": 0.6}}


def rows(text, start):
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith(start)
    ]


@pytest.fixture
def named(setting, params):
    """A function that makes the lines of results, each with its method."""
    return lambda results: [(result.trial.method, make_line(result, setting, params, commit="")) for result in results]


@pytest.fixture
def hard():
    """Average precisions of 400 queries."""
    return np.random.default_rng(0).uniform(0.2, 0.6, size=400)


def test_means_spreads_ties_and_what_is_missing(result, named, hard):
    noise = np.random.default_rng(1).normal(0, 0.1, size=400)
    results = [result("nsh", 16, seed, hard + 0.1 + (seed - 1) / 1000) for seed in range(5)]
    results += [result("itq", 16, seed, hard - 0.05) for seed in range(2)]
    results += [result("mbe", 16, seed, hard + 0.0995 + noise - noise.mean()) for seed in range(5)]
    text = table_markdown(summarise("cifar10", named(results), ceiling=CEILING), heading="Of these images.")
    mean = hard.mean()
    assert rows(text, "| float embedding, cosine")[0][1:4] == ["0.531"] * 3
    nsh, itq, mbe = (rows(text, f"| {name} |") for name in ("nsh †", "itq", "mbe †"))
    assert nsh[0] == ["nsh †", f"**{mean + 0.101:.3f} ± 0.002**", "missing", "missing", "0.706", "0.733", "0.756"]
    assert mbe[0][1] == f"{mean + 0.0995:.3f} ± 0.000 **≈**"
    assert itq[0][1] == f"{mean - 0.05:.3f} ± 0.000 (2 of 5 seeds)"
    figures = [[figure, "missing", "missing"] for figure in ("0.375", "0.250", "0.125", "62")]
    assert rows(text, "| nsh |")[0] == ["nsh", *itertools.chain(*figures)]
    assert rows(text, "| lsh |") == []
    assert re.search(r"Not measured yet: lsh, .* date, .*oh, ", text)
    assert "- 16 bits: nsh − mbe = +0.0015 [-0.0" in text
    assert ", a tie" in text
    assert "- 32 bits" not in text
    assert "make table" in text


def test_the_best_stands_first_and_half_measured_methods_behind_whole_ones(result, named, hard):
    results = [
        result(method, bits, 0, hard + gain) for bits in (16, 32, 64) for method, gain in (("itq", 0), ("lsh", -0.1))
    ]
    results.append(result("nsh", 16, 0, hard + 0.2))
    text = table_markdown(summarise("fashion-mnist", named(results), ceiling=CEILING), heading="Of these images.")
    floats = [f"float embedding, {name}" for name in CEILING]
    assert [row[0] for row in rows(text, "| ")][2:7] == [*floats, "itq", "lsh", "nsh †"]
    assert "paper:" not in text


def test_every_method_of_the_house_is_named_before_it_is_measured():
    text = table_markdown(summarise("cifar10", [], ceiling=CEILING), heading="Nothing yet.")
    assert f"Not measured yet: {', '.join(ROWS)}." in text
    assert set(ROWS) >= set(METHODS)
    assert "best rival" not in text


def test_a_method_whose_setting_is_not_its_paper_s_is_marked_and_explained(result, named, hard):
    results = [result(method, 16, 0, hard) for method in METHODS]
    text = table_markdown(summarise("cifar10", named(results), ceiling=CEILING), heading="")
    assert rows(text, "| tbh †")
    assert "\n- tbh: a hundredth of its 100,000 steps where there are 10,000 images; " in text
    for method in METHODS:
        departure = read_declaration(method).departure
        assert bool(rows(text, f"| {method} † |")) == bool(departure)
        assert (f"\n- {method}: {departure}\n" in text + "\n") == bool(departure)


def test_a_training_that_had_failed_is_named(result, named, hard):
    results = [result(method, 16, seed, hard) for method in ("hashgan", "itq") for seed in (0, 1)]
    results[1].measured.history.append({"epoch": 2, "loss": 0.5, "collapsed": 1.0, "vanished": 0.0})
    results[0].measured.history.insert(0, {"epoch": 0, "loss": 0.5, "collapsed": 1.0, "vanished": 1.0})
    text = table_markdown(summarise("cifar10", named(results), ceiling=CEILING), heading="")
    assert "\n- hashgan at 16 bits, seed 1: the codes collapsed\n" in text
    assert text.count("collapsed") == 1
    assert "vanished" not in text


@pytest.fixture
def command(start_study, quick):
    """`make table`."""
    return start_study(module, quick)


def test_a_control_has_a_row_of_its_own_beside_its_method(command, quick, leave):
    leave([make_trial(quick, "nsh_plus", bits=16, seed=0), *make_controls(quick, ["nsh_plus"], bits=(16,), seeds=1)])
    command("--methods")
    for row in ("nsh_plus", "nsh_plus, sorting: 0"):
        cells = rows(Path("docs/results.md").read_text(), f"| {row} |")[0][1:4]
        assert [cell == "missing" for cell in cells] == [False, True, True]


def test_the_ceiling_is_that_of_the_embeddings_and_computed_once(setting, monkeypatch):
    found = measure_ceiling(setting, progress=lambda iterable, **rest: iterable)
    sides = [np.load(setting.project.embed / f"{part}.npy") for part in ("query", "gallery")]
    labels = [read_part(setting.project.split, part).labels for part in ("query", "gallery")]
    plain, whitened = found.values()
    assert plain["mAP_at_1000"] == pytest.approx(cosine_map(*sides, *labels, k=1000)["mAP_at_1000"], abs=1e-6)
    assert plain != whitened
    monkeypatch.setattr(ceiling_module, "cosine_map", None)
    assert measure_ceiling(setting, progress=None) == found


def test_a_part_is_measured_and_the_rest_said_to_be_missing(command, quick, leave, capsys):
    leave([make_trial(quick, method, bits=16, seed=0) for method in ("lsh", "itq")])
    command("--methods", "itq", "--bits", "16", "--seeds", "1", "--jobs", "1")
    page = Path("docs/results.md").read_text()
    assert page.split("<!-- cifar10 -->")[1].strip() in capsys.readouterr().out
    assert "(1 of 5 seeds)" in rows(page, "| itq |")[0][1]
    assert "(1 of 5 seeds)" in rows(page, "| lsh |")[0][1]  # measured before
    assert "Not measured yet: nsh, " in page
    raw = list(csv.DictReader(Path("docs/results/cifar10.csv").read_text().splitlines()))
    assert [(row["method"], row["bits"]) for row in raw] == [("itq", "16"), ("lsh", "16")]


def test_more_seeds_and_other_lengths_are_shown_now_and_by_later_calls(command, quick, leave):
    trials = [make_trial(quick, "itq", bits=16, seed=seed) for seed in range(5)]
    trials += [make_trial(quick, "itq", bits=bits, seed=0) for bits in (8, 24)]  # 8 is a short code of the sweep
    leave([*trials, make_trial(quick, "itq", bits=40, seed=6, changed={"iterations": 3})])  # no trial of the table
    for asked in (["--seeds", "5", "--bits", "24", "16"], []):
        command("--methods", *asked)
        page = Path("docs/results.md").read_text()
        assert rows(page, "| mAP@1000 |")[0][1:5] == ["16 bits", "24 bits", "32 bits", "64 bits"]
        itq = rows(page, "| itq |")[0]
        assert " ± " in itq[1]
        assert "seeds" not in itq[1]
        assert itq[2].endswith("(1 of 5 seeds)**")
        assert itq[3:5] == ["missing", "missing"]
        assert "over 5 training seed(s)" in page
        assert 'make table ROOT=<CIFAR-10> BITS="16 24 32 64"' in page
        raw = list(csv.DictReader(Path("docs/results/cifar10.csv").read_text().splitlines()))
        assert len(raw) == 5 + 2 + 1  # other studies' trials too
    command("--methods", "--bits", "8")
    assert rows(Path("docs/results.md").read_text(), "| mAP@1000 |")[0][1] == "8 bits"


def test_what_others_have_measured_stays_in_the_table(command, quick, leave, setting):
    both = [make_trial(quick, method, bits=16, seed=0) for method in ("lsh", "itq")]
    leave(both)
    command("--methods")
    page, record = (Path("docs", name).read_bytes() for name in ("results.md", "results/cifar10.csv"))
    shutil.rmtree(setting.trials)  # as on another machine
    command("--methods")
    assert page == Path("docs/results.md").read_bytes()
    leave(both[1:])
    command("--methods", "--bits", "16")
    assert record == Path("docs/results/cifar10.csv").read_bytes()


def test_with_missing_only_what_the_record_lacks_is_measured(command, quick, leave, setting, monkeypatch):
    wanted = []
    monkeypatch.setattr(
        shared, "run_trials", lambda trials, *rest, **more: wanted.append([t.name for t in trials]) or []
    )
    leave([make_trial(quick, "itq", bits=16, seed=seed) for seed in (0, 2)])
    command("--methods")
    shutil.rmtree(setting.trials)
    command("--methods", "itq", "--bits", "16", "--seeds", "3")
    command("--methods", "itq", "--bits", "16", "--seeds", "3", "--missing")
    assert wanted[1:] == [[f"itq 16 bits seed {seed}" for seed in range(3)], ["itq 16 bits seed 1"]]


def test_recorded_trials_of_other_parameters_stay_in_the_record_alone(command, quick, leave, setting, monkeypatch):
    leave([make_trial(quick, method, bits=16, seed=0) for method in ("lsh", "itq")])
    command("--methods")
    record = Path("docs/results/cifar10.csv").read_bytes()
    shutil.rmtree(setting.trials)
    monkeypatch.setattr(module, "read_params", lambda: change(quick, {"methods.itq.iterations": 3}))
    command("--methods")
    page = Path("docs/results.md").read_text()
    assert rows(page, "| lsh |")
    assert not rows(page, "| itq |")
    assert record == Path("docs/results/cifar10.csv").read_bytes()


def test_a_recorded_trial_that_knows_no_queries_counts_in_the_mean_alone(result, named, hard):
    measured = named([result("itq", 16, seed, hard + seed / 100) for seed in range(2)])
    measured += named([result("mbe", 16, seed, hard + 0.003) for seed in range(2)])
    former = [(row, replace(line, average_precision=np.empty(0))) for row, line in measured]
    for table, tie in ((measured, True), (former, False), ([former[0], *measured[1:]], True)):
        text = table_markdown(summarise("cifar10", table, ceiling=CEILING), heading="")
        assert rows(text, "| itq |")[0][1].startswith(f"**{hard.mean() + 0.005:.3f} ± 0.007")
        assert ("≈" in rows(text, "| mbe †")[0][1]) == tie


def test_a_length_that_was_asked_for_has_a_column_without_figures(result, named, hard):
    table = summarise("cifar10", named([result("itq", 16, 0, hard)]), asked=[24], ceiling=CEILING)
    text = table_markdown(table, heading="")
    assert rows(text, "| itq |")[0][2:5] == ["missing"] * 3
    assert rows(text, "| itq |")[0][5:] == ["0.305", "", "0.325", "0.349"]


def test_a_failed_trial_is_told_after_the_table_is_written(command, monkeypatch):
    monkeypatch.setattr(module, "run", lambda *arguments: ["itq 16 bits seed 0 failed: error: why (log)"])
    with pytest.raises(TrainingError, match="1 trials failed and are marked as missing:\nitq 16 bits"):
        command("--methods", "itq")
    assert re.search("Not measured yet: .*itq,", Path("docs/results.md").read_text())


def test_without_methods_the_table_is_only_written(command, monkeypatch):
    wanted = []
    monkeypatch.setattr(module, "run", lambda trials, *rest: wanted.extend(trials) or [])
    command("--methods")
    assert wanted == []
    assert Path("docs/results.md").exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(["--methods", "itg"], ConfigError), (["--seeds", "0"], SystemExit), (["--setting", "digits"], SystemExit)],
)
def test_arguments_that_cannot_be_are_refused(command, arguments, error):
    with pytest.raises(error):
        command(*arguments)
    assert not Path("docs").exists()
