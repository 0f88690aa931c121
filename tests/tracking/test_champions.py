"""Who may become challenger and champion, on a real store with versions of several splits and profiles."""

import shutil
from dataclasses import replace

import pytest
from tests.commands import run_nsh
from tests.tracking.conftest import draw_small, make_project, write_results

from nsh.config import change, read_params
from nsh.errors import TrackingError
from nsh.tracking import list_versions, promote, rollback, sync
from nsh.tracking.champions import ROLLED_BACK, Promotion, _line
from nsh.tracking.recorded import Recorded
from nsh.tracking.store import open_store

NAME, UNLABELLED = "folder-nsh-16", "folder-nsh-32"
OTHER_SPLIT = {"split": "6" * 64}
# mAP of each version of NAME, what else is different, whether it is a trial, and the challenger afterwards.
CONTEST = [
    (0.60, {}, False, "1"),
    (0.55, {}, False, "1"),
    (0.70, OTHER_SPLIT, False, "1"),
    (0.90, {}, True, "1"),
    (0.62, {}, False, "5"),
]


def holder(project, alias, name=NAME):
    found = [version.version for version in list_versions(project) if version.name == name and alias in version.aliases]
    return found[0] if found else None


@pytest.fixture(scope="module")
def contest(tmp_path_factory, mlflow_database):
    """A project whose store has the versions of CONTEST, two of a model without labels, and the challengers met."""
    project = make_project(tmp_path_factory.mktemp("contest") / "project", mlflow_database)
    params, challengers = read_params(project / "params.yaml"), []
    with pytest.MonkeyPatch.context() as patch:
        draw_small(patch)
        for seed, (value, other, trial, _) in enumerate(CONTEST):
            write_results(project, seed=seed, mAP_at_5=value, **other)
            sync(project, change(params, {"registry.trial": trial}))
            challengers.append(holder(project, "challenger"))
        for seed, value in enumerate((0.4, 0.35)):
            write_results(project, bits=32, seed=seed, mAP_at_5=None, estimated_mAP_at_5=value)
            sync(project, params)
    return project, challengers


@pytest.fixture
def project(contest, tmp_path, monkeypatch):
    """A copy of it, the working folder."""
    shutil.copytree(contest[0], tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_the_challenger_is_the_best_of_one_split_and_never_a_trial(contest):
    assert contest[1] == [challenger for *_, challenger in CONTEST]


def test_a_recorded_trial_is_no_better_for_being_recorded_again(project):
    assert {outcome.done for outcome in sync(project, read_params())} <= {"there already", "skipped"}
    assert holder(project, "challenger") == "5"


def test_a_version_that_is_worse_or_was_not_measured_alike_is_refused(project):
    first = promote(project, f"{NAME}/1")
    assert (first.before, first.gate) == (None, "the first champion")
    worse = r"mAP_at_5 -0\.0500 \[-0\.0500, -0\.0500\] on 2 queries against version 1, -0\.0100 is allowed"
    with pytest.raises(TrackingError, match=worse):
        promote(project, f"{NAME}/2")
    with pytest.raises(TrackingError, match=r"version 3 \(split 66666666, gallery of 9.*split 55555555.*not measured"):
        promote(project, f"{NAME}/3")
    with pytest.raises(TrackingError, match=r"version 4 is a trial.*--force"):
        promote(project, f"{NAME}/4")
    assert holder(project, "champion") == "1"
    assert promote(project, NAME).gate.startswith("mAP_at_5 +0.0200 [+0.0200, +0.0200] on 2 queries against version 1")
    assert holder(project, "champion") == "5"


def test_champions_come_back_in_turn_and_every_change_is_on_record(project):
    for version in ("1", "5"):
        promote(project, f"{NAME}/{version}")
    forced = promote(project, f"{NAME}/2", force="half the size")
    assert (forced.before, forced.reason) == ("5", "half the size")
    assert [rollback(project, NAME).version for _ in range(2)] == ["5", "1"]
    with pytest.raises(TrackingError, match=r"no champion before version 1: `nsh registry promote"):
        rollback(project, NAME)
    assert holder(project, "champion") == "1"
    promote(project, f"{NAME}/5")
    assert rollback(project, NAME).version == "1"
    records = {key for version in list_versions(project) for key in version.tags if key.startswith("champion/")}
    assert records == {f"champion/{number:04}" for number in range(1, 8)}
    (tags,) = [version.tags for version in list_versions(project) if (version.name, version.version) == (NAME, "2")]
    assert '"reason": "half the size"' in tags["champion/0003"]


def test_the_challenger_follows_the_champion_to_another_split(project):
    assert promote(project, f"{NAME}/1", force="kept though not needed").reason == "kept though not needed"
    promote(project, f"{NAME}/3", force="the folder has grown")
    assert holder(project, "challenger") == "3"
    rollback(project, NAME)
    assert holder(project, "challenger") == "5"


def test_without_labels_estimates_are_compared(project):
    assert holder(project, "challenger", UNLABELLED) == "1"
    promote(project, UNLABELLED)
    with pytest.raises(TrackingError, match=r"estimated_mAP_at_5 -0\.0500 against version 1"):
        promote(project, f"{UNLABELLED}/2")


def test_a_store_of_an_earlier_version_is_read_as_far_as_it_goes(project):
    client = open_store(project, experiment="folder").client
    for run in client.search_runs([open_store(project, experiment="folder").experiment_id]):
        client.delete_tag(run.info.run_id, "protocol_sha256")
        client.delete_tag(run.info.run_id, "trial")
    for path in (project / "mlartifacts").rglob("average_precision.csv"):
        path.unlink()
    client.set_registered_model_alias(NAME, "champion", "2")
    assert promote(project, f"{NAME}/1").gate == "mAP_at_5 +0.0500 against version 2"
    assert rollback(project, NAME).version == "2"


def test_a_champion_whose_runs_were_deleted_can_be_replaced_by_force(project):
    promote(project, f"{NAME}/1")
    store = open_store(project, experiment="folder")
    for run in store.client.search_runs([store.experiment_id], f"tags.model_version = '{NAME}/1'"):
        store.client.delete_run(run.info.run_id)
    with pytest.raises(TrackingError, match=r"version 1 \(no run is known\)"):
        promote(project, f"{NAME}/5")
    assert promote(project, f"{NAME}/5", force="a new start").version == "5"
    assert "not known" in run_nsh("registry", "show", f"{NAME}/1").stdout


def test_the_list_says_what_was_measured_on(project):
    rows = {tuple(line.split()[:2]): line for line in run_nsh("registry", "list").stdout.splitlines()}
    assert rows[NAME, "3"].split()[2:6] == ["0.7000", "@5", "9", "66666666"]
    assert " trial " in rows[NAME, "4"]
    assert "0.4000 @5 est." in rows[UNLABELLED, "1"]


def test_a_version_has_a_page(project):
    run_nsh("registry", "promote", f"{NAME}/1")
    refused = run_nsh("registry", "promote", f"{NAME}/2")
    assert refused.returncode == 2
    assert "-0.0500" in refused.stderr
    forced = run_nsh("registry", "promote", f"{NAME}/2", "--force", "half the size")
    assert "forced: half the size" in forced.stdout
    page = run_nsh("registry", "show", NAME).stdout
    for text in (
        f"{NAME}/2",
        "5" * 64,
        "6 train, 3 query, 9 gallery",
        "100.0000% of the bits are torch's",
        "precision fp32",
        "tau_c 0.1",
        "mAP_at_5",
        "version 2 after 1, by",
        "forced: half the size",
    ):
        assert text in page
    assert run_nsh("registry", "rollback", NAME).stdout == f"{NAME}: champion is version 1 again (before: version 2)\n"


def test_estimates_are_compared_on_one_backbone_alone():
    estimate = Recorded(
        name=UNLABELLED,
        version="1",
        run_id="a",
        split_sha256="5" * 64,
        protocol="",
        counts={},
        figure="estimated_mAP_at_5",
        value=0.4,
        trial=False,
        backbone="backbone.name=resnet18",
    )
    other = replace(estimate, backbone="backbone.name=mobilenet_v2")
    assert estimate.is_comparable(replace(estimate, value=0.5))
    assert not estimate.is_comparable(other)
    assert replace(estimate, figure="mAP_at_5").is_comparable(replace(other, figure="mAP_at_5"))


def make_history(*changes):
    """Changes (version, before); of a rollback (version, before, True)."""
    return [
        Promotion(name=NAME, version=version, before=before, gate=ROLLED_BACK if back else "")
        for version, before, *back in changes
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ([], []),
        ([("1", None), ("2", "1")], ["1", "2"]),
        ([("1", None), ("2", "1"), ("1", "2", True)], ["1"]),
        ([("1", None), ("2", "1"), ("1", "2", True), ("3", "1")], ["1", "3"]),
        ([("2", "1")], ["1", "2"]),  # the first was set before promotions were recorded
        ([("1", None), ("2", "7")], ["1", "7", "2"]),  # 7 was set by hand
        ([("1", None), ("2", "1"), ("2", "7", True)], ["1", "2"]),
        ([("1", None), ("2", "1"), ("1", "2"), ("2", "1", True)], ["1", "2"]),
        ([("1", None), ("3", "2"), ("1", "3", True)], ["1"]),  # 2 was deleted
    ],
)
def test_a_rollback_takes_the_last_champion_from_the_line(changes, line):
    assert _line(make_history(*changes)) == line
