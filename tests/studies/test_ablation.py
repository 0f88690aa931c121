import csv
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

from nsh.config import change
from nsh.methods import create
from nsh.methods.nsh import Nsh
from nsh.project.paths import Pair, PairFiles
from nsh.reports import paper
from nsh.reports.summary import Summary
from nsh.stages.train import train_head
from nsh.studies import ablation as module
from nsh.studies.ablation import BITS, VARIANTS, ablation_markdown, make_groups
from nsh.training.loop import CachedViewLoop

PRINTED = {"NSH": 0.706, "(i)": 0.323, "(ii)": 0.686, "(iii)": 0.489, "(iv)": 0.606, "(v)": 0.641, "(vi)": 0.689}
HARD = np.random.default_rng(0).uniform(-0.2, 0.2, size=400)


@pytest.fixture
def found(result):
    """A function that makes every variant that the paper has, at 16 bits and its mean but for what `means` says."""

    def make(**means):
        names = [variant.name for variant in VARIANTS if variant.printed]
        values = {name: means.get(name.split()[0].strip(",()"), PRINTED[name.split()[0].strip(",")]) for name in names}
        return {
            (name, 16): Summary([result("nsh", 16, 0, value + HARD - HARD.mean())]) for name, value in values.items()
        }

    return make


def rows(text, start):
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith(start)
    ]


def test_a_row_stands_beside_what_the_paper_prints(found):
    text = ablation_markdown(found(NSH=0.494), setting="cifar10", seeds=1)
    assert rows(text, "| NSH, the paper's")[0][1:] == ["0.494", "missing", "missing", "0.706", "0.733", "0.756"]
    assert rows(text, "| (i) hard sort")[0][1:] == ["0.323", "missing", "missing", "0.323", "0.405", "0.477"]
    assert rows(text, "| NSH, ours")[0][1:] == ["missing"] * 3 + [""] * 3
    assert "make ablation ROOT=<CIFAR-10> SEEDS=1" in text


def test_the_order_of_the_paper_is_found_to_be_whole(found):
    # Seven printed rows, (v) in two readings that share one: all pairs of eight but that one.
    assert "- 16 bits: 27 of 27 pairs, the whole order" in ablation_markdown(found(), setting="cifar10", seeds=1)


def test_pairs_that_are_the_other_way_round_are_named(found):
    text = ablation_markdown(found(i=0.5), setting="cifar10", seeds=1)
    assert "- 16 bits: 26 of 27 pairs; the other way round: (i) hard sort before (iii) decoding loss by 0.011\n" in text
    assert "- 32 bits" not in text


def test_a_difference_that_says_nothing_is_a_tie(found, result):
    noise = np.random.default_rng(1).normal(0, 0.1, size=400)
    noisy = result("nsh", 16, 0, 0.7065 + HARD - HARD.mean() + noise - noise.mean())
    text = ablation_markdown(found() | {("(ii) without L_R", 16): Summary([noisy])}, setting="cifar10", seeds=1)
    assert "(ii) without L_R before NSH, the paper's by 0.001 **≈**" in text


def test_without_numbers_of_the_paper_there_is_no_order(found):
    text = ablation_markdown(found(), setting="fashion-mnist", seeds=2)
    assert rows(text, "| NSH, the paper's")[0][1:] == ["0.706 (1 of 2 seeds)", "missing", "missing"]
    assert "paper: " not in text
    assert "order" not in text


def test_every_row_of_table_3_and_every_ablation_is_there(params):
    printed = paper.printed("cifar10", "mAP_at_1000", table="T3")
    assert {variant.printed for variant in VARIANTS if variant.printed} == printed.keys()
    rows = [trials[0].parameters for trials in make_groups(params, 1).values()]
    allowed = get_args(get_type_hints(Nsh)["ablation"])
    assert {parameters["ablation"] for parameters in rows} == set(allowed)
    assert all(parameters["init"] == "random" for parameters in rows if parameters["ablation"] != "none")


@pytest.fixture
def command(start_study, params):
    """`make ablation`; NSH learns for one short epoch."""
    return start_study(module, change(params, {"methods.nsh.epochs": 1, "methods.nsh.d_z": 4, "methods.nsh.batch": 20}))


def test_every_variant_can_be_trained_and_is_shown(command, monkeypatch, setting, leave, tmp_path, capsys):
    def train(trials, *rest):
        for place, trial in enumerate(trials):
            files = PairFiles(tmp_path / f"{place}", Pair("nsh", trial.bits))
            loop, method = CachedViewLoop(cache=tmp_path / "cache", threads=1), create("nsh", trial.parameters)
            fixed = {"seed": 0, "threads": 1, "loop": loop, "report": lambda record: None}
            trained = train_head(setting.project, files, method=method, **fixed)
            assert len(trained.history) == 1
        leave(trials)
        return []

    monkeypatch.setattr(module, "run", train)
    command("--bits", "16")
    section = Path("docs/results.md").read_text().split("<!-- cifar10-ablation -->")[1].strip()
    assert section in capsys.readouterr().out
    for variant in VARIANTS:
        (row,) = rows(section, f"| {variant.name} |")
        assert 0.1 < float(row[1]) < 1
        assert row[2:4] == ["missing"] * (len(BITS) - 1)
    raw = list(csv.DictReader(Path("docs/results/cifar10.csv").read_text().splitlines()))
    assert {row["method"] for row in raw} == {"nsh"}
    changes = [" ".join(f"{name}={variant.changed[name]}" for name in sorted(variant.changed)) for variant in VARIANTS]
    assert sorted(" ".join(sorted(row["changed"].split())) for row in raw) == sorted(changes)


def test_a_length_that_the_table_lacks_is_refused(command):
    with pytest.raises(SystemExit):
        command("--bits", "12")
