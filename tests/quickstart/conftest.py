"""A project whose parameters are committed, and a folder of photos beside it."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/encoder.onnx"


def git(*arguments: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *author, *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    folder = tmp_path / "project"
    (folder / "params").mkdir(parents=True)
    monkeypatch.chdir(folder)
    for name in ("params.yaml", "dvc.yaml", "params/own-folder.yaml", ".gitignore"):
        shutil.copy(ROOT / name, folder / name)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "a")
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder with as many names of photos as any method's batch needs."""
    folder = tmp_path / "my photos"
    (folder / "beach").mkdir(parents=True)
    for number in range(400):
        (folder / f"beach/{number:03}.jpg").touch()
    return folder
