import pytest

from nsh.studies.record import record_results
from nsh.studies.rows import choose_lines, make_controls, make_trials
from nsh.studies.trials import make_trial


def test_the_first_seed_of_all_comes_before_the_second_of_any(params):
    trials = make_trials(params, ["nsh", "itq"], bits=(16, 32), seeds=2)
    assert [trial.name for trial in trials[:5]] == [
        "nsh 16 bits seed 0",
        "itq 16 bits seed 0",
        "nsh 32 bits seed 0",
        "itq 32 bits seed 0",
        "nsh 16 bits seed 1",
    ]


def test_a_method_with_a_control_has_trials_of_it(params):
    (trial,) = make_controls(params, ["nsh_plus"], bits=(16,), seeds=1)
    assert trial.name == "nsh_plus sorting=0.0 16 bits seed 0"
    assert make_controls(params, ["itq"], bits=(16,), seeds=1) == []


@pytest.mark.parametrize(("asked", "short"), [((16,), []), ((8, 16), [("itq", 8)])])
def test_lines_of_methods_and_controls_are_chosen_and_no_others(
    quick, setting, leave, tmp_path, monkeypatch, asked, short
):
    monkeypatch.chdir(tmp_path)
    leave([make_trial(quick, "itq", bits=bits, seed=0) for bits in (8, 16)])
    leave([make_trial(quick, "itq", bits=16, seed=0, changed={"iterations": 3})])
    leave(make_controls(quick, ["nsh_plus"], bits=(16,), seeds=1))
    chosen = choose_lines(record_results(setting, quick), quick, setting, asked=asked)
    assert [(row, line.bits) for row, line in chosen] == [*short, ("itq", 16), ("nsh_plus, sorting: 0", 16)]
