"""Every profile is a whole, valid params file, and taking one loses nobody's own settings."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from nsh.config import read_params

ROOT = Path(__file__).parents[1]
PROFILES = sorted((ROOT / "params").glob("*.yaml"))


def keys(values: object, prefix: str = "") -> set[str]:
    if not isinstance(values, dict):
        return {prefix}
    return {prefix}.union(*(keys(value, f"{prefix}.{name}") for name, value in values.items()))


def test_there_are_profiles() -> None:
    assert "coco-sample" in [path.stem for path in PROFILES]


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_a_profile_is_a_whole_valid_params_file(path: Path) -> None:
    read_params(path)
    default, profile = (yaml.safe_load(file.read_text()) for file in (ROOT / "params.yaml", path))
    assert keys(profile) == keys(default)
    assert f"PROFILE={path.stem}" in path.read_text()  # how it is run stands at its head


def run(project: Path, profile: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([project / "tools/use_profile", profile], capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose params.yaml is committed, with two profiles."""
    for name, text in {"params.yaml": "a: 1\n", "params/one.yaml": "a: 2\n", "params/two.yaml": "a: 3\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/use_profile", tmp_path / "tools")
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_a_profile_takes_the_place_of_the_committed_file_or_of_another(project: Path) -> None:
    for profile, text in (("one", "a: 2\n"), ("two", "a: 3\n"), ("two", "a: 3\n")):
        assert run(project, profile).returncode == 0
        assert (project / "params.yaml").read_text() == text


def test_settings_that_are_nowhere_else_stay(project: Path) -> None:
    (project / "params.yaml").write_text("a: 4\n")
    done = run(project, "one")
    assert (done.returncode, (project / "params.yaml").read_text()) == (2, "a: 4\n")
    assert done.stderr.startswith("error: params.yaml has changes of your own: commit them")


@pytest.mark.parametrize("name", ["three", "", "../params"])
def test_an_unknown_profile_names_the_known(project: Path, name: str) -> None:
    done = run(project, name)
    assert (done.returncode, done.stderr) == (2, f"error: PROFILE: found '{name}', allowed are one, two\n")
    assert (project / "params.yaml").read_text() == "a: 1\n"
