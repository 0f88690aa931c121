"""A training that was stopped goes on where it was, however it was stopped."""

from pathlib import Path

import yaml
from tests.end_to_end.project import Project
from tests.end_to_end.stopping import check_it_went_on, stop_in_training

BEFORE = {"check", "download", "split", "embed", "audit"}
AFTER = {"export@nsh-16", "encode@nsh-16", "evaluate@nsh-16", "compare"}


def test_after_ctrl_c_it_goes_on_and_what_depends_on_it_is_made(made: Path, printed: tuple[str, str]) -> None:
    project, (stopped, again) = Project(made / "project"), printed
    check_it_went_on(project, stopped, again, epochs=2)
    first, second = project.stages_run(stopped), project.stages_run(again)
    assert first >= BEFORE
    assert second >= AFTER
    assert first & second == {"train@nsh-16"}


def test_where_dvc_alone_was_killed_it_goes_on_too_and_what_depends_on_it_is_stale(project: Project) -> None:
    params = yaml.safe_load((project.folder / "params.yaml").read_text())
    params["methods"]["nsh"]["epochs"] = 21
    (project.folder / "params.yaml").write_text(yaml.safe_dump(params))
    command = ("dvc", "repro", "train@nsh-16")
    stopped = stop_in_training(project, *command, how="dvc alone is killed")
    again = project.run(*command)
    check_it_went_on(project, stopped, again, epochs=21)
    assert project.stages_run(again) == {"train@nsh-16"}
    assert project.stages_stale() == {"check", "export@nsh-16", "evaluate@nsh-16"}
