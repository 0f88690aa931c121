"""The project after `dvc repro`, which one worker makes for all."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.end_to_end.project import Project, draw_digits, make_project


@pytest.fixture(scope="module")
def project(made_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of it, the module's own."""
    images = made_once("digits", draw_digits)

    def make(folder: Path) -> None:
        make_project(folder, images).run("dvc", "repro")

    folder = tmp_path_factory.mktemp("end-to-end") / "project"
    shutil.copytree(made_once("repro", make), folder, symlinks=True)
    return Project(folder, images)
