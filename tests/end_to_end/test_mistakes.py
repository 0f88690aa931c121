"""What is wrong with a user's images or parameters is said, and stops what it must."""

import json
from pathlib import Path

import yaml
from tests.end_to_end.project import BROKEN, Project, make_project


def test_a_broken_image_is_reported_and_left_out(made: Path) -> None:
    project = Project(made / "project")
    assert project.json("data/split/split.json")["unreadable"] == 1
    row = json.loads((project.folder / "data/split/unreadable.jsonl").read_text())
    assert row["id"] == BROKEN
    assert row["error"]


def test_a_mistyped_method_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    project = make_project(tmp_path / "project", tmp_path / "digits")
    values = yaml.safe_load((project.folder / "params.yaml").read_text())
    values["matrix"] = {"methods": ["nhs"], "bits": [16.5]}
    (project.folder / "params.yaml").write_text(yaml.safe_dump(values))
    output = project.run("dvc", "repro", expect=255)
    assert project.stages_run(output) == {"check"}
    assert "matrix.methods.0: found nhs, allowed are" in output
    assert "matrix.bits.0: found 16.5" in output
