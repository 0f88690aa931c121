"""`nsh quickstart` trains with DVC, and serves what it made."""

import pytest
from tests.end_to_end.project import BROKEN, IMAGES, Project, save

from nsh.serving.index import Index


@pytest.fixture(scope="module")
def quick(project: Project) -> Project:
    """The project, whose own-folder profile is that what was trained."""
    (project.folder / "params/own-folder.yaml").write_text("matrix:\n  methods: [nsh]\n")
    save(project, "results, and a profile")
    return project


def test_it_makes_what_dvc_lacks_and_indexes_every_photo(quick: Project) -> None:
    command = "nsh", "quickstart", str(quick.images), "--no-serve"
    printed = quick.run(*command)
    assert not quick.stages_run(printed)  # that is all made
    assert f"{IMAGES} photos in {quick.images}" in printed
    assert f"1 of {IMAGES} images could not be decoded" in printed
    assert BROKEN in printed
    assert len(Index.open(quick.folder / "search/index", readonly=True)) == IMAGES - 1
    assert "done before  dvc repro export@nsh-16" in quick.run(*command)
    assert quick.run("tools/use_profile", "default")
    assert "search" not in quick.run("git", "status", "--short")
