import subprocess

import pytest
import yaml

from nsh.tracking import compare_with_commit


def stage(deps, outs, **params):
    as_list = [[{"path": path, "md5": md5} for path, md5 in items.items()] for items in (deps, outs)]
    return {"cmd": "x", "deps": as_list[0], "params": {"params.yaml": params}, "outs": as_list[1]}


def write(project, *, code="c1", head="h1", figures="f1"):
    """What `dvc repro` leaves: a lock of three stages, and a result that git tracks."""
    stages = {
        "embed": stage({"src/nsh/data": code}, {"data/embed": "e1"}),
        "train@nsh-16": stage({"data/embed": "e1"}, {"models/nsh-16/head.pt": head}, seed=0),
        "evaluate@nsh-16": stage({"models/nsh-16/head.pt": head}, {"metrics/nsh-16.json": figures}),
    }
    (project / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))
    (project / "metrics").mkdir(exist_ok=True)
    (project / "metrics/nsh-16.json").write_text(figures)


@pytest.fixture
def measured(repository):
    write(repository)
    for command in (
        ["add", "dvc.lock", "metrics"],
        ["-c", "user.name=t", "-c", "user.email=t@e", "commit", "-qm", "m"],
    ):
        subprocess.run(["git", *command], cwd=repository, check=True)
    return repository


def test_the_committed_results_are_nothing_to_speak_of(measured):
    assert compare_with_commit(measured) == ""


def test_a_stage_that_computes_otherwise_is_named(measured):
    write(measured, head="h2", figures="f2")
    message = compare_with_commit(measured)
    assert message.startswith("results differ from the committed ones: 2 file(s) in dvc.lock and metrics")
    assert "From the committed inputs, train@nsh-16 made other bytes here" in message


def test_changed_code_is_named(measured):
    write(measured, code="c2", head="h2", figures="f2")
    assert "From the committed inputs, train@nsh-16" in compare_with_commit(measured)  # the embeddings are the same
    write(measured, code="c2", figures="f1")
    assert compare_with_commit(measured).endswith("src/nsh/data changed since they were committed.")


def test_other_parameters_promise_nothing(measured):
    write(measured, head="h2", figures="f2")
    with (measured / "params.yaml").open("a") as file:
        file.write("# mine\n")
    assert compare_with_commit(measured) == ""


def test_without_a_commit_there_is_nothing_to_compare_with(project):
    write(project)
    assert compare_with_commit(project) == ""
