"""What is said of classes, and that one class is none."""

from pathlib import Path

import pytest
from PIL import Image

from nsh.data import folder
from nsh.data.classes import check_classes, count_classes, describe_classes
from nsh.errors import DataError


def images(tmp_path: Path, *names: str, labels: str = "folder") -> folder.FolderImages:
    for name in names:
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "root" / name)
    folder.fetch(raw=tmp_path / "raw", root=tmp_path / "root", say=lambda line: None)
    return folder.open_images(raw=tmp_path / "raw", root=tmp_path / "root", labels=labels)


def test_classes_and_counts_are_said(tmp_path: Path) -> None:
    found = images(tmp_path, "cat/1.png", "dog/1.png", "dog/2.png", "Dog/3.png")
    check_classes(found)
    assert count_classes(found) == {"Dog": 1, "cat": 1, "dog": 2}
    assert describe_classes(found) == "4 images of 3 classes: dog 2, Dog 1, cat 1; only case tells apart Dog and dog"


def test_many_classes_are_shown_as_some(tmp_path: Path) -> None:
    names = [f"{number:02}/{copy}.png" for number in range(15) for copy in range(2 if number < 3 else 1)]
    text = describe_classes(images(tmp_path, *names))
    assert text.startswith("18 images of 15 classes: 00 2, 01 2, 02 2, 03 1")
    assert text.endswith("11 1 and 3 more, down to 1 images")


@pytest.mark.parametrize("above", ["images/", "train/images/"])
def test_one_folder_too_many_is_named(tmp_path: Path, above: str) -> None:
    found = images(tmp_path, f"{above}cat/1.png", f"{above}dog/1.png", f"{above.replace('train', 'test')}dog/2.png")
    with pytest.raises(
        DataError, match=r"all 3 images are of one class, 'images', so .* \(below it lie cat, dog\): set"
    ):
        check_classes(found)


def test_one_class_without_folders_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"of one class, 'cat', so that mAP would be 1 for any codes: set dataset.root"):
        check_classes(images(tmp_path, "cat/1.png", "cat/2.png"))


def test_without_labels_there_is_nothing_to_refuse(tmp_path: Path) -> None:
    found = images(tmp_path, "cat/1.png", labels="none")
    check_classes(found)
    assert describe_classes(found) == "1 images without labels"


def test_a_class_in_two_forms_is_one(tmp_path: Path) -> None:
    assert images(tmp_path, "b\u00e4r/1.png", "ba\u0308r/2.png", "cat/1.png").classes == ("b\u00e4r", "cat")
