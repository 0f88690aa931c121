from pathlib import Path

import pytest

from nsh.core.folders import atomic_folder


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
