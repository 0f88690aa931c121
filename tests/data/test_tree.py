from pathlib import Path

import pytest

from nsh.core.image_files import NO_IMAGE, describe
from nsh.data import tree


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (["train", "test"], "test"),
        (["train", "val"], "val"),
        (["train", "val", "test"], "test"),
        (["train"], None),
        (["test", "val"], None),
        (["Train", "TEST"], "test"),
        (["training", "Validation"], "validation"),
        (["train", "valid", "Val"], "val"),
        (["trainers", "test"], None),
        ([], None),
    ],
)
def test_train_beside_test_is_an_official_split(folders: list[str], expected: str | None) -> None:
    assert tree.name_of_test_part([f"{folder}/a/1.png" for folder in folders]) == expected


def test_images_called_train_and_test_are_no_folders() -> None:
    assert tree.name_of_test_part(["train", "test", "a/train"]) is None


@pytest.mark.parametrize(
    ("path", "test", "part"),
    [
        ("train/a/1.png", "val", "train"),
        ("Val/a/1.png", "val", "test"),
        ("TRAIN/a/1.png", "val", "train"),
        ("train/1.png", None, ""),
    ],
)
def test_an_image_has_the_part_of_its_first_folder(path: str, test: str | None, part: str) -> None:
    assert tree.part_of(path, test) == part


def test_scanning_sorts_and_counts(tmp_path: Path) -> None:
    for name in ("b/2.png", "b/10.JPEG", "a/z/1.tif", "a/notes.md", ".git/x.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found, ignored = tree.scan(tmp_path)
    assert found == ["a/z/1.tif", "b/10.JPEG", "b/2.png"]
    assert ignored == {NO_IMAGE: 1, "hidden folders": 1}
    assert describe(ignored) == "left out: 1 files that are no images by name, 1 hidden folders"
