import subprocess
from pathlib import Path

import pytest

from nsh.reports.summary import Summary
from nsh.studies.document import PAGE, made_with, mean_text, write_section


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_sections_stand_in_one_order_and_are_replaced_one_by_one(project):
    write_section("cifar10-sweep", "## Sweep\n\nold")
    write_section("cifar10", "## CIFAR-10\n\n| a | b |\n")
    write_section("cifar10-sweep", "## Sweep\n\nnew")
    text = PAGE.read_text()
    assert text.startswith("# Results\n")
    assert "old" not in text
    assert text.index("## CIFAR-10") < text.index("## Sweep\n\nnew")
    again = text
    write_section("cifar10-sweep", "## Sweep\n\nnew\n\n")
    assert PAGE.read_text() == again


def test_each_setting_has_its_table_and_its_studies_together(project):
    for name in ("fashion-mnist-sweep", "cifar10-figures", "fashion-mnist", "cifar10"):
        write_section(name, f"of {name}")
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("of ")]
    assert lines == ["of cifar10", "of cifar10-figures", "of fashion-mnist", "of fashion-mnist-sweep"]


def test_a_figure_tells_its_spread_and_how_many_seeds_it_has(result):
    three = Summary([result("itq", 16, seed, [0.25 + seed / 100]) for seed in range(3)])
    assert mean_text(three, "mAP_at_1000", seeds=3) == "0.260 ± 0.010"
    assert mean_text(three, "P_at_1000", seeds=4) == "0.250 ± 0.000 (3 of 4 seeds)"
    assert mean_text(Summary(three.results[:1]), "mAP_at_1000", seeds=1) == "0.250"
    assert mean_text(None, "mAP_at_1000", seeds=1) == "missing"


def git(*arguments):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], check=True, capture_output=True)


def test_a_section_says_which_code_made_it(project):
    assert made_with("make table") == "Made with `make table`, outside of git."
    git("init")
    Path("params.yaml").write_text("a: 1")
    git("add", "params.yaml")
    git("commit", "-m", "first")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout[:12]
    Path("docs").mkdir()
    Path("docs/results.md").write_text("what a study writes is no change of the code")
    assert made_with("make table") == f"Made with `make table` at commit `{commit}`."
    Path("params.yaml").write_text("a: 2")
    assert made_with("make table").endswith("and changes that were not committed.")
