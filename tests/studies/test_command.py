"""What the studies' commands share."""

from argparse import Namespace

from nsh.studies import command as module
from nsh.studies.command import make_call, run, summarise_groups
from nsh.studies.record import record_results
from nsh.studies.trials import make_trial


def make_groups(params, seeds):
    changes = {"changed": {"iterations": 3}, "default": {}}
    return {
        name: [make_trial(params, "itq", bits=8, seed=seed, changed=changed) for seed in range(seeds)]
        for name, changed in changes.items()
    }


def test_seeds_of_earlier_calls_are_shown_where_they_are_the_study_s_own(quick, setting, leave, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def summarise(seeds):
        lines = record_results(setting, quick)
        found, seeds = summarise_groups(lambda seeds: make_groups(quick, seeds), lines, setting, seeds=seeds)
        return {name: summary.seeds for name, summary in found.items()}, seeds

    leave(make_groups(quick, 4)["default"])  # as the table does
    assert summarise(1) == ({"default": 1}, 1)
    leave(make_groups(quick, 3)["changed"])
    assert summarise(1) == ({"changed": 3, "default": 3}, 3)
    assert summarise(5) == ({"changed": 3, "default": 4}, 5)


def test_equal_trials_are_run_once_the_first_seed_of_all_before_the_second_of_any(quick, setting, monkeypatch):
    ran = []
    monkeypatch.setattr(module, "run_trials", lambda trials, setting, jobs, say: ran.extend(trials) or [])
    groups = make_groups(quick, 2)
    arguments = Namespace(jobs=1, missing=False)
    run([*groups["changed"], *groups["default"], *groups["default"]], setting, arguments, quick)
    assert [(trial.parameters["iterations"], trial.seed) for trial in ran] == [(3, 0), (2, 0), (3, 1), (2, 1)]


def test_a_call_says_what_is_needed_to_repeat_it():
    assert make_call("sweep", "cifar10", seeds=2) == "make sweep ROOT=<CIFAR-10> SEEDS=2"
    assert make_call("table", "fashion-mnist") == "make table SETTING=fashion-mnist"
