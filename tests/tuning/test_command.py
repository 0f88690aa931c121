"""`nsh tune` as its user starts it, on a real project, study and MLflow store."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.commands import run_nsh

from nsh.config import read_params
from nsh.config.applying import lay
from nsh.config.params import parse_params
from nsh.project.paths import Pair
from nsh.tracking.store import open_store
from nsh.tuning.outcome import Outcome
from nsh.tuning.profile import profile_path, read_base
from nsh.tuning.search import Search, open_search
from nsh.tuning.study import Scores, Trial
from nsh.tuning.training import Trainer

WORDS = ("--bits", 8)


def read_runs(folder: Path) -> tuple[list, list]:
    """The run of the study, and those of its trials in their order."""
    store = open_store(folder, experiment=read_params().dataset.name)
    runs = store.client.search_runs([store.experiment_id])
    parents = [run for run in runs if "tuning_study" in run.data.tags]
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert all(run.data.tags["mlflow.parentRunId"] == parents[0].info.run_id for run in children)
    return parents, sorted(children, key=lambda run: int(run.data.tags["tuning_trial"]))


def test_a_search_shows_its_space_and_goes_on(write_project: Callable[..., Path]) -> None:
    folder = write_project()
    began = run_nsh("tune", "cibhash", *WORDS, "--trials", 2, "--only", "temperature")
    assert began.returncode == 0, began.stderr
    assert "judged by mAP_at_8 on held-out training images: 10 choose between trials, 10 check" in began.stdout
    assert "temperature  0.3          0.075  1.2" in began.stdout
    assert "kept: epochs=2, batch=16" in began.stdout
    assert "0 of 2 trials are there" in began.stdout
    parents, children = read_runs(folder)
    assert children[0].data.params["methods.cibhash.temperature"] == "0.3"
    again = run_nsh("tune", "cibhash", *WORDS, "--trials", 3, "--only", "temperature")
    assert "2 of 3 trials are there" in again.stdout
    assert re.findall(r"^trial (\d+):", again.stdout, re.MULTILINE) == ["2"]
    parents, children = read_runs(folder)
    assert [run.info.run_name for run in parents + children] == ["tune cibhash-8", "trial 0", "trial 1", "trial 2"]
    assert {run.info.status for run in parents + children} == {"FINISHED"}
    assert all(0 < run.data.metrics["held_out_mAP_at_8"] <= 1 for run in children)
    assert all("tuning/held_out_mAP_at_8" in run.data.metrics for run in children)


def test_ctrl_c_leaves_a_study_that_goes_on(
    write_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, measure = write_project(labelled=False), Trainer.measure

    def interrupted(trainer: Trainer, *arguments: object) -> Scores:
        if Path("one").exists():
            os.kill(os.getpid(), signal.SIGINT)
        Path("one").touch()
        return measure(trainer, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "measure", interrupted)
        ended = run_nsh("tune", "itq", *WORDS, "--trials", 2)
    assert ended.returncode == 130
    assert "Traceback" not in ended.stderr
    (parent,), children = read_runs(folder)
    assert (parent.info.status, len(children)) == ("KILLED", 1)
    again = run_nsh("tune", "itq", *WORDS, "--trials", 2)
    assert "There are no labels, so an estimate judges" in again.stdout
    assert "1 of 2 trials are there" in again.stdout
    (parent,), children = read_runs(folder)
    assert (parent.info.status, len(children)) == ("FINISHED", 2)
    assert "held_out_estimated_mAP_at_8" in children[1].data.metrics


def test_a_store_that_does_not_answer_stops_no_search(
    write_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_project()
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", "sqlite:////dev/null/no.db")
        lost = run_nsh("tune", "itq", *WORDS, "--trials", 1)
    assert lost.returncode == 0
    assert lost.stderr.count("the search goes on, the next one records its trials") == 1
    assert run_nsh("tune", "itq", *WORDS, "--trials", 1).returncode == 0
    assert len(read_runs(folder)[1]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nonsense",), "found method 'nonsense', allowed are nsh, itq"),
        (("lsh",), "lsh: it has no number to search"),
        (("itq", "--only", "epochs"), "asked to search epochs of itq: allowed are iterations"),
        (("itq", "--bits", 64), "64 bits"),  # of 12 features: trial 0 cannot be trained
    ],
)
def test_what_cannot_be_searched_is_refused(
    write_project: Callable[..., Path], words: tuple[object, ...], message: str
) -> None:
    write_project()
    refused = run_nsh("tune", *words)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_backbone_in_training_is_refused(write_project: Callable[..., Path]) -> None:
    folder = write_project()
    text = (folder / "params.yaml").read_text().replace("mode: frozen", "mode: finetune")
    (folder / "params.yaml").write_text(text)
    refused = run_nsh("tune", "itq")
    assert (refused.returncode, "train.mode: found finetune" in refused.stderr) == (2, True)


@pytest.fixture
def search(write_project: Callable[..., Path]) -> Search:
    write_project()
    return open_search(read_params(), Pair("cibhash", 8), only=["temperature", "hidden"])


def make_trials(*scores: tuple[float, float]) -> list[Trial]:
    """Complete trials; the first has the values of params.yaml."""
    values = [{"temperature": 0.3, "hidden": 16}, {"temperature": 0.51, "hidden": 16}, {"temperature": 1, "hidden": 9}]
    return [
        Trial(number=number, values=values[number], scores=Scores(*found), curve={}, refused="")
        for number, found in enumerate(scores)
    ]


def test_a_winner_is_a_profile_that_use_profile_takes(search: Search) -> None:
    base, params = read_base(), Path("params.yaml").read_text()
    told = Outcome(search, make_trials((0.5, 0.5), (0.7, 0.6), (0.6, 0.9))).conclude(base)
    assert "make repro PROFILE=tuned-cibhash" in told
    path = profile_path(Pair("cibhash", 8))
    text, changes = lay(path, params)
    assert {change.key: change.value for change in changes} == {
        "matrix.methods": ["nsh_plus", "nsh", "cibhash"],
        "matrix.bits": [16, 32, 64, 8],
        "methods.cibhash.temperature": 0.51,
    }
    assert parse_params(text, source="").methods.cibhash.temperature == 0.51
    written = path.read_text()
    assert "temperature: 0.51  # 0.3 before; searched from 0.075 to 1.2" in written
    assert "0.7000, with the values of params.yaml 0.5000" in written
    assert f"Trial 1 of 3 in the study {search.name}" in written


@pytest.mark.parametrize("scores", [(0.5, 0.9), (0.7, 0.4)])  # chosen by luck: worse on the images that check
def test_values_that_win_nothing_are_no_profile(search: Search, scores: tuple[float, float]) -> None:
    told = Outcome(search, make_trials((0.5, 0.5), scores)).conclude(read_base())
    assert "the values of params.yaml are not beaten on both halves: no profile is written" in told
    assert not profile_path(Pair("cibhash", 8)).exists()


def test_a_profile_keeps_what_the_search_had_beside_the_committed_values(search: Search) -> None:
    """As after `make repro PROFILE=own-folder`: a profile is laid over the committed file."""
    committed = Path("params.yaml").read_text().replace("k: 20", "k: 1000")
    Outcome(search, make_trials((0.5, 0.5), (0.7, 0.6))).conclude(parse_params(committed, source=""))
    _, changes = lay(profile_path(Pair("cibhash", 8)), committed)
    assert {change.key: change.value for change in changes}["evaluate.k"] == 20


def test_the_study_is_named_by_all_that_scores_depend_on(search: Search) -> None:
    params, pair = read_params(), Pair("cibhash", 8)
    assert search.name == open_search(params, pair, only=["hidden", "temperature"]).name
    assert search.name != open_search(params, pair).name
    seed = params.model_copy(update={"train": params.train.model_copy(update={"seed": 4})})
    assert search.name != open_search(seed, pair, only=["hidden", "temperature"]).name
