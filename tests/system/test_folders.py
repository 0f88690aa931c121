import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nsh.system.folders import atomic_folder, is_empty


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "folder"
    with atomic_folder(target) as partial:
        (partial / "a").write_text("1")
        assert not target.exists()
    assert [path.name for path in target.parent.iterdir()] == ["folder"]
    assert (target / "a").read_text() == "1"


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old").write_text("1")
    with pytest.raises(IsADirectoryError), atomic_folder(target) as partial:
        partial.write_text("a folder takes no text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert [path.name for path in target.iterdir()] == ["old"]


def test_the_former_folder_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for name in ("old", "new"):
        with atomic_folder(target) as partial:
            (partial / name).write_text("1")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


KILLED = """
import os, sys
from pathlib import Path
from nsh.system import folders
with folders.atomic_folder(Path(sys.argv[1])) as partial:
    (partial / "half").write_text("half")
    os.kill(os.getpid(), 9)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_dead_writers_left_is_cleared_away(tmp_path: Path) -> None:
    """Process ids repeat in containers: nothing of this may hang on them."""
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "folder")], check=False)
    for leftover in (f".folder.{os.getpid()}.former", f".folder.{os.getpid()}.partial", ".folder.1.partial"):
        (tmp_path / leftover).mkdir()
        (tmp_path / leftover / "old").touch()
    assert ".folder.0.partial" in names(tmp_path)
    for name in ("one", "two"):
        with atomic_folder(tmp_path / "folder") as partial:
            (partial / name).touch()
        assert names(tmp_path) == ["folder"]
        assert names(tmp_path / "folder") == [name]


def test_two_writers_at_once_do_not_meet(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "folder") as first, atomic_folder(tmp_path / "folder") as second:
        (first / "first").touch()
        (second / "second").touch()
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == ["first"]  # the last to be whole


@pytest.mark.parametrize("linked", [False, True])
def test_a_link_is_followed(tmp_path: Path, linked: bool) -> None:
    if linked:
        (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with atomic_folder(tmp_path / "link") as partial:
        (partial / "a").touch()
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["a"]


@pytest.mark.parametrize("bound", [False, True])
def test_a_mount_point_is_filled_from_within(tmp_path: Path, mount: Callable[..., None], bound: bool) -> None:
    folder, other = tmp_path / "volume", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    mount("--bind", other, folder) if bound else mount("-t", "tmpfs", "none", folder)
    (folder / "lost+found").mkdir()
    assert is_empty(folder)
    for name in ("one", "two"):
        with atomic_folder(folder) as partial:
            (partial / "deep").mkdir()
            (partial / "deep" / name).touch()
            (partial / name).touch()
            assert not (folder / name).exists()
        assert names(folder) == ["deep", "lost+found", name]
        assert names(folder / "deep") == [name]
    with pytest.raises(IsADirectoryError), atomic_folder(folder) as partial:
        partial.write_text("a folder takes no text")
    assert names(folder) == ["deep", "lost+found", "two"]


def test_a_folder_whose_parent_cannot_be_written_is_filled_from_within(
    tmp_path: Path, mount: Callable[..., None], mount_read_only: Callable[[Path, Path], None]
) -> None:
    """As a volume of one's own in a container whose root is read-only."""
    parent = tmp_path / "parent"
    (parent / "own").mkdir(parents=True)
    mount_read_only(parent, parent)
    mount("-t", "tmpfs", "none", parent / "own")
    with atomic_folder(parent / "own") as partial:
        (partial / "a").touch()
    assert names(parent / "own") == ["a"]
    with pytest.raises(OSError, match="Read-only file system"), atomic_folder(parent / "new"):
        pass
