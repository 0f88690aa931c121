import json

import pytest
import yaml

from nsh.config import change
from nsh.errors import TrackingError
from nsh.system.command import TIMES
from nsh.tracking import stage_times

LOCK = """
schema: '2.0'
stages:
  split: {cmd: x, params: {params.yaml: {split: {train: 6}, dataset.name: folder}}}
  train@nsh-16: {cmd: x, params: {params.yaml: {methods.nsh: {learning_rate: 0.0003}}}}
  train@nsh-64: {cmd: x, params: {params.yaml: {methods.nsh: {learning_rate: 0.0003}}}}
  compare: {cmd: x}
"""
NOW = {"split": {"train": 6}, "dataset": {"name": "folder"}, "methods": {"nsh": {"learning_rate": "3e-4"}}}
OTHER_PROFILE = NOW | {"split": {"train": 9}}


@pytest.fixture
def note(project):
    """A function that notes a stage's time as `run_stage` does."""
    (project / "dvc.lock").write_text(LOCK)
    (project / TIMES).parent.mkdir(parents=True)
    (project / TIMES).with_name("params").mkdir()

    def write(stage, seconds, params=NOW):
        name = f"{len(str(params))}.yaml"
        ((project / TIMES).with_name("params") / name).write_text(yaml.safe_dump(params))
        with (project / TIMES).open("a") as file:
            file.write(json.dumps({"stage": stage, "seconds": seconds, "params": name}) + "\n")

    return write


def test_the_slowest_stage_is_first_and_its_last_run_counts(project, params, note):
    for stage, seconds in (
        ("train --method nsh --bits 16", 9.0),
        ("compare", 5.0),
        ("train --method nsh --bits 16", 4.5),
    ):
        note(stage, seconds)
    assert list(stage_times(project, params).items()) == [("compare", 5.0), ("train@nsh-16", 4.5)]


def test_a_run_with_other_parameters_than_the_results_here_does_not_count(project, params, note):
    note("split", 4.0)
    note("split", 900.0, OTHER_PROFILE | {"split": {"train": 10**9}})
    assert stage_times(project, params) == {"split": 4.0}  # restored from DVC's cache, made in 4 s


def test_pairs_that_left_the_matrix_do_not_count(project, params, note):
    note("train --method nsh --bits 16", 4.5)
    note("train --method nsh --bits 64", 9.0)
    assert stage_times(project, params) == {"train@nsh-16": 4.5}
    wider = change(params, {"matrix.bits": [16, 64]})
    assert stage_times(project, wider) == {"train@nsh-64": 9.0, "train@nsh-16": 4.5}


def test_a_stage_that_never_ended_well_does_not_count(project, params, note):
    note("export --method nsh --bits 16", 4.5)
    assert stage_times(project, params) == {}


def test_without_times_there_are_none(project, params):
    assert stage_times(project, params) == {}


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"stage": "a"}', b"\xff"])
def test_damaged_times_are_one_sentence(project, params, content):
    (project / TIMES).parent.mkdir(parents=True)
    (project / TIMES).write_bytes(content)
    with pytest.raises(TrackingError, match=r"times\.jsonl is damaged .*: delete it"):
        stage_times(project, params)
