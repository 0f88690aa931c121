"""What `nsh quickstart` refuses, in one sentence, before anything is written; and what it plans."""

import os
import socket
from pathlib import Path

import pytest
import yaml
from tests.commands import run_nsh
from tests.quickstart.conftest import git

from nsh.errors import ConfigError
from nsh.quickstart.preparation import plan


def refused(folder: Path) -> str:
    """The sentence, where nothing was written."""
    before = git("status", "--short", "--ignored")
    done = run_nsh("quickstart", folder, "--port", 0)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert git("status", "--short", "--ignored") == before
    return done.stderr


def test_no_folder(project: Path, tmp_path: Path) -> None:
    assert f"{tmp_path / 'absent'} is no folder" in refused(tmp_path / "absent")


def test_no_image(project: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/notes.txt").touch()
    assert "has no image (left out: 1 files that are no images by name)" in refused(tmp_path / "empty")


def test_too_few_images(project: Path, photos: Path) -> None:
    for path in sorted(photos.rglob("*.jpg"))[20:]:
        path.unlink()
    found = refused(photos)
    assert "found 20 images (left out: nothing), at least " in found
    query = yaml.safe_load(Path("params/own-folder.yaml").read_text())["split"]["query"]
    assert f" to learn from, and {query} that are only searched with" in found


def test_the_folder_of_the_project(project: Path) -> None:
    assert "holds this project itself" in refused(project)
    assert "holds this project itself" in refused(project.parent)


def test_no_project(project: Path, photos: Path) -> None:
    Path("dvc.yaml").unlink()
    Path("params/own-folder.yaml").unlink()
    assert "error: dvc.yaml, params/own-folder.yaml is not here: run the command in the project's fol" in refused(
        photos
    )


def test_settings_of_the_users_own(project: Path, photos: Path) -> None:
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("seed: 0", "seed: 5"))
    assert "params.yaml has changes of your own: commit them" in refused(photos)


def test_a_mistake_in_the_profile(project: Path, photos: Path) -> None:
    profile = Path("params/own-folder.yaml")
    profile.write_text(profile.read_text() + "encode: {batch: -1}\n")
    with pytest.raises(ConfigError, match=r"(?s)params/own-folder.yaml over params.yaml has 1 mistake.*encode.batch"):
        plan(photos)


def test_a_port_in_use(project: Path, photos: Path, listening: int) -> None:
    done = run_nsh("quickstart", photos, "--port", listening)
    assert done.returncode == 2
    assert f"cannot listen at 127.0.0.1:{listening}" in done.stderr
    assert git("status", "--short") == ""


@pytest.fixture
def listening():
    """A port at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_folder_elsewhere_is_absolute_and_one_below_relative(
    project: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(photos.parent))
    assert plan(Path("../my photos")).root == photos
    photos.rename("data")
    for spelling in (Path("data"), Path("./data/"), project / "data"):
        planned = plan(spelling)
        assert planned.root == Path("data")
        assert yaml.safe_load(planned.params)["dataset"]["root"] == "data"
    assert planned.photos == "400 photos in data; left out: nothing"


def test_the_encoder_is_the_profiles_first_method_at_the_most_bits(project: Path, photos: Path) -> None:
    profile = Path("params/own-folder.yaml")
    values = yaml.safe_load(profile.read_text()) | {"matrix": {"methods": ["itq", "nsh"], "bits": [48, 16]}}
    profile.write_text(yaml.safe_dump(values))
    assert plan(photos).pair.key == "itq-48"


def test_a_folder_that_cannot_be_read_has_no_image(project: Path, photos: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every folder")
    photos.chmod(0)
    try:
        assert "has no image (left out: 1 folders that cannot be read)" in refused(photos)
    finally:
        photos.chmod(0o700)
