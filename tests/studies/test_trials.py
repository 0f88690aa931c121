from dataclasses import replace

import pytest

from nsh.studies import trials as module
from nsh.studies.trials import make_trial, read_result, read_results, select


def test_results_are_found_again(quick, setting, leave):
    trials = [make_trial(quick, "itq", bits=8, seed=seed) for seed in (0, 1)]
    assert read_results(setting) == []
    leave(trials)
    first, second = select(read_results(setting), trials)
    assert (first.trial.seed, second.trial.seed) == (0, 1)
    assert first.metrics["mAP_at_1000"] == pytest.approx(first.average_precision.mean(), abs=1e-6)
    assert first.metrics.keys() >= {"P_at_1000", "P_at_H2", "train_seconds"}
    assert first.codes("query").shape == (60, 1)
    assert first.codes("gallery").shape == (200, 1)
    assert read_result(trials[1], setting) == second
    assert select(read_results(setting), trials[1:]) == [second]


def test_a_result_belongs_to_parameters_data_and_code(quick, params, setting, leave, monkeypatch):
    trial = make_trial(quick, "itq", bits=8, seed=0)
    leave([trial])
    assert read_result(trial, setting) is not None
    assert read_result(make_trial(params, "itq", bits=8, seed=0), setting) is None
    assert read_result(make_trial(quick, "itq", bits=9, seed=0), setting) is None
    assert read_result(trial, replace(setting, digest="e" * 64)) is None
    assert read_results(replace(setting, digest="e" * 64)) == []
    monkeypatch.setattr(module, "code_of", lambda method: "another")
    assert read_result(trial, setting) is None
    assert read_results(setting) == []


def test_the_name_of_a_change_is_for_the_eye(quick, params):
    changed = make_trial(params, "itq", bits=8, seed=0, changed={"iterations": 2})
    assert changed == make_trial(quick, "itq", bits=8, seed=0)
    assert changed.name == "itq iterations=2 8 bits seed 0"


def test_the_value_of_params_yaml_is_no_change(quick):
    assert make_trial(quick, "itq", bits=8, seed=0, changed={"iterations": 2}).changed == {}
