"""Studies in real SQLite files; what is measured is arithmetic instead of training."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
import pytest

from nsh.errors import ConfigError, TrainingError
from nsh.tuning.space import Range
from nsh.tuning.study import LEARNED_FIRST, JudgeEpoch, Scores, Study, StudyUnusable, Trial, open_study

SPACE = {"rate": Range(0.1, 0.025, 0.4), "width": Range(8, 2, 32)}
DEFAULT = {"rate": 0.1, "width": 8}

Opened = Callable[[], Any]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of studies, to be copied: its tables take longer than all trials of a test."""
    path = tmp_path_factory.mktemp("studies") / "studies.db"
    with open_study(path, name="empty", space=SPACE, seed=0) as study:
        assert study.trials == []
    return path


@pytest.fixture
def opened(tmp_path: Path, empty: Path) -> Opened:
    """A function that opens the study of one name, in one file."""
    shutil.copy(empty, tmp_path)
    return lambda name="one": open_study(tmp_path / "studies.db", name=name, space=SPACE, seed=0)


def measure(values: Mapping[str, Any], judge: JudgeEpoch) -> Scores:
    """Best at a large rate and a small width."""
    score = values["rate"] + 1 / values["width"]
    return Scores(score, score / 2)


def run(study: Study, count: int) -> list[Trial]:
    return [study.run_next(measure) for _ in range(count)]


def test_the_first_trial_has_the_values_of_params_yaml(opened: Opened) -> None:
    with opened() as study:
        first, second = run(study, 2)
    assert (first.number, first.values, first.state) == (0, DEFAULT, "complete")
    assert first.scores == pytest.approx((0.225, 0.1125))
    assert second.values != DEFAULT
    assert 0.025 <= second.values["rate"] <= 0.4
    assert second.values["width"] in range(2, 33)


def test_a_study_goes_on_where_it_ended(opened: Opened) -> None:
    with opened() as study:
        before = run(study, 2)
    with opened() as study:
        assert study.trials == before
        assert [trial.number for trial in run(study, 1)] == [2]
    with opened("other") as study:
        assert study.trials == []


def test_an_interrupted_study_tries_what_an_uninterrupted_one_does(opened: Opened) -> None:
    def interrupt(values: Mapping[str, Any], judge: JudgeEpoch) -> Scores:
        raise KeyboardInterrupt

    with opened("whole") as study:
        whole = run(study, LEARNED_FIRST + 1)
    for ended, more in ((0, 2), (2, LEARNED_FIRST - 1)):
        with opened() as study:
            with pytest.raises(KeyboardInterrupt):
                study.run_next(interrupt)
            assert study.trials == whole[:ended]
            run(study, more)
    with opened() as study:
        assert study.trials == whole


def test_the_trial_of_a_killed_process_is_void(opened: Opened, tmp_path: Path) -> None:
    with opened() as study:
        run(study, 2)
    left = optuna.load_study(study_name="one", storage=f"sqlite:///{tmp_path}/studies.db")
    left.ask()  # and never told how it ended
    with opened() as study:
        assert [trial.number for trial in run(study, 1)] == [2]
    assert {trial.state.name for trial in left.get_trials()} == {"COMPLETE", "FAIL"}


def test_a_trial_below_the_median_is_stopped_and_kept(opened: Opened) -> None:
    def train(scores: list[float]) -> Callable[..., Scores]:
        def judged(values: Mapping[str, Any], judge: JudgeEpoch) -> Scores:
            for epoch, score in enumerate(scores, start=1):
                judge(epoch, score)
            return Scores(scores[-1], scores[-1])

        return judged

    with opened() as study:
        for number in range(LEARNED_FIRST):
            study.run_next(train([0.5, 0.6 + number / 100]))
        bad, good = study.run_next(train([0.1, 0.1, 0.9])), study.run_next(train([0.5, 0.7]))
    assert (bad.state, bad.curve, bad.scores) == ("stopped", {1: 0.1, 2: 0.1}, None)
    assert (good.state, good.curve) == ("complete", {1: 0.5, 2: 0.7})


@pytest.mark.parametrize("error", [TrainingError, ConfigError])
def test_values_that_the_method_does_not_take_are_no_end(opened: Opened, error: type[Exception]) -> None:
    def refuse(values: Mapping[str, Any], judge: JudgeEpoch) -> Scores:
        raise error("m = 40 positives in a list of 32")

    with opened() as study:
        with pytest.raises(error, match="40 positives"):  # not even those of params.yaml
            study.run_next(refuse)
        assert study.trials == []
        run(study, 1)
        refused = study.run_next(refuse)
        assert (refused.number, refused.state) == (1, "refused")
        assert refused.refused == "m = 40 positives in a list of 32"
        assert len(run(study, 1)) == 1


def test_a_fault_is_no_trial(opened: Opened) -> None:
    def fail(values: Mapping[str, Any], judge: JudgeEpoch) -> Scores:
        raise ZeroDivisionError

    with opened() as study:
        run(study, 1)
        with suppress(ZeroDivisionError):
            study.run_next(fail)
        assert len(study.trials) == 1


def test_two_processes_do_not_search_in_one_study(opened: Opened) -> None:
    with opened(), pytest.raises(StudyUnusable, match="another process searches in the study one"), opened():
        pass
    with opened():
        pass


def test_a_file_that_is_no_database_is_named(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "studies.db").write_text("no database at all, but long enough to be looked at as one")
    with pytest.raises(StudyUnusable, match=r"studies\.db cannot be used: .*not a database"), opened():
        pass


def test_a_folder_in_its_place_is_named(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "studies.db").unlink()
    (tmp_path / "studies.db").mkdir()
    with pytest.raises(StudyUnusable, match=r"studies\.db cannot be used"), opened():
        pass
