"""The project after `dvc repro`, which one worker makes for all."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.end_to_end.project import Project, draw_digits, make_project
from tests.end_to_end.stopping import stop_in_training


@pytest.fixture(scope="session")
def made(made_once: Callable[..., Path]) -> Path:
    """`project`, and what `dvc repro` printed when Ctrl-C stopped its training and when it went on; only to be read."""

    def make(folder: Path) -> None:
        folder.mkdir()
        project = make_project(folder / "project", made_once("digits", draw_digits))
        stopped = stop_in_training(project, "dvc", "repro", how="ctrl-c")
        (folder / "printed.json").write_text(json.dumps([stopped, project.run("dvc", "repro")]))

    return made_once("repro", make)


@pytest.fixture(scope="module")
def project(made: Path, made_once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of it, the module's own."""
    folder = tmp_path_factory.mktemp("end-to-end") / "project"
    shutil.copytree(made / "project", folder, symlinks=True)
    return Project(folder, made_once("digits", draw_digits))


@pytest.fixture
def printed(made: Path) -> tuple[str, str]:
    """What `dvc repro` printed when it was stopped, and when it went on."""
    stopped, again = json.loads((made / "printed.json").read_text())
    return stopped, again
