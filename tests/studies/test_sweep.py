import csv
from pathlib import Path

import pytest

from nsh.config import change
from nsh.errors import TrainingError
from nsh.reports.summary import Summary
from nsh.studies import sweep as module
from nsh.studies.sweep import PARAMETERS, SHORT_METHODS, Point, make_groups, make_panels
from nsh.studies.trials import make_trial


def rows(text, start):
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith(start)
    ]


def test_one_value_differs_at_a_time(params):
    groups = make_groups(params, 2)
    usual = params.methods.model_dump(mode="json")["nsh"]
    for point, trials in groups.items():
        assert [trial.seed for trial in trials] == [0, 1]
        for trial in trials:
            if point.varied == "bits":
                assert (trial.bits, trial.changed) == (point.value, {})
            else:
                assert trial.bits == 32
                assert trial.parameters == usual | {point.varied: point.value}
    usual_values = [trials for point, trials in groups.items() if point.varied != "bits" and not trials[0].changed]
    assert len(usual_values) == len(PARAMETERS)  # params.yaml's own value is among those of each parameter
    assert len(groups) == 3 * len(SHORT_METHODS) + sum(len(values) for values in PARAMETERS.values())


def test_a_panel_has_a_point_where_something_is_measured(params, result):
    found = {
        Point("m", "nsh", 2): Summary([result("nsh", 32, seed, [0.5 + seed / 10]) for seed in range(3)]),
        Point("tau_s", "nsh", "d_b"): Summary([result("nsh", 32, 0, [0.2])]),
    }
    panels = {panel.title: panel for panel in make_panels(found, params)}
    m, tau = panels["Positives: m"], panels["Softsort: tau_s"]
    assert m.lines["nsh"] == [None, (pytest.approx(0.6), pytest.approx(0.1)), None, None, None]
    assert (m.values, m.chosen) == (["1", "2", "3", "5", "8"], 2)
    assert tau.lines["nsh"] == [None] * 5 + [(0.2, 0.0)]
    assert tau.values == ["0.03125", "0.05", "0.1", "0.25", "0.5", "d_b"]
    assert panels["Short codes: bits"].chosen is None


def test_what_is_measured_is_drawn_and_what_failed_is_told(start_study, monkeypatch, params, leave, capsys):
    quick = change(params, {"methods.itq.iterations": 2, "methods.agh.anchors": 30})
    leave([make_trial(quick, method, bits=8, seed=0) for method in ("itq", "agh")])
    monkeypatch.setattr(module, "run", lambda *arguments: ["nsh m=8 32 bits seed 0 failed: error: why (log)"])
    with pytest.raises(TrainingError, match="1 trials failed"):
        start_study(module, quick)()
    section = Path("docs/results.md").read_text().split("<!-- cifar10-sweep -->")[1].strip()
    assert section in capsys.readouterr().out
    assert "](results/cifar10-sweep.png)" in section
    assert Path("docs/results/cifar10-sweep.png").stat().st_size < 300_000
    itq, nsh = rows(section, "| itq")[0], rows(section, "| nsh |")
    assert (itq[1], itq[3]) == ("missing", "missing")
    assert 0.1 < float(itq[2]) < 1
    assert [len(row) - 1 for row in nsh] == [3, 6, 6, 5]
    raw = list(csv.DictReader(Path("docs/results/cifar10.csv").read_text().splitlines()))
    assert [(row["method"], row["bits"]) for row in raw] == [("agh", "8"), ("itq", "8")]
