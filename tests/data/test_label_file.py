"""Labels of a folder from a file."""

import json
import shutil
import unicodedata
from pathlib import Path

import pytest
from PIL import Image

from nsh.data import folder, registry
from nsh.data.classes import describe_classes
from nsh.errors import DataError

PATHS = ["a.png", "b/c.png", "b/d.png"]
CSV = "path,label\na.png,cat\nb/c.png,dog\nb/c.png,cat\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, path in enumerate(PATHS):
        (tmp_path / "root" / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / "root" / path)
    return tmp_path / "root"


def read(root: Path, text: str, name: str = "labels.csv", encoding: str = "utf-8") -> tuple[folder.FolderImages, str]:
    """The images with their labels, and what was said of the file."""
    said: list[str] = []
    (root / name).write_bytes(text.encode(encoding))
    registry.fetch("folder", raw=root.parent / "raw", root=root, labels=name, say=said.append)
    return registry.open_images("folder", raw=root.parent / "raw", root=root, labels=name), said[1]


def labels_of(images: folder.FolderImages) -> dict[str, set[str]]:
    pairs = zip(images.ids, images.labels, strict=True)
    return {path: {images.classes[row] for row in rows} for path, rows in pairs}


EXPECTED = {"a.png": {"cat"}, "b/c.png": {"dog", "cat"}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", CSV),
        ("labels.csv", "path,label\na.png,cat\nb/c.png,dog|cat\n"),
        ("labels.CSV", "\ufeffid, year ,labels\r\n.\\a.png,2020, cat \r\n./b\\c.png,, dog | cat|\r\n,,\r\n"),
        ("labels.jsonl", '{"path": "a.png", "label": "cat"}\n\n{"path": "./b/c.png", "label": ["dog", "cat"]}\r\n'),
        ("labels.jsonl", '{"id": "a.png", "labels": ["cat"]}\n{"id": "b\\\\c.png", "labels": "cat|dog"}'),
    ],
)
def test_every_spelling_gives_the_same_labels(root: Path, name: str, text: str) -> None:
    images, said = read(root, text, name)
    assert labels_of(images) == EXPECTED
    assert images.classes == ("cat", "dog")
    assert said == f"{name}: 2 of 3 images have a label (not 'b/d.png'); images without one are left out"
    assert describe_classes(images) == "2 images of 2 classes: cat 2, dog 1"


@pytest.mark.parametrize("on_disk", ["NFC", "NFD"])
@pytest.mark.parametrize("in_file", ["NFC", "NFD"])
def test_forms_of_accents_do_not_matter(root: Path, on_disk: str, in_file: str) -> None:
    path, row = (unicodedata.normalize(form, "bär.png") for form in (on_disk, in_file))
    (root / "a.png").rename(root / path)
    images, _ = read(root, f"path,label\n{row},{unicodedata.normalize(in_file, 'bär')}\nb/c.png,b\u00e4r\nb/d.png,x\n")
    assert labels_of(images) == {path: {"b\u00e4r"}, "b/c.png": {"b\u00e4r"}, "b/d.png": {"x"}}


def test_rows_without_an_image_are_said_with_examples(root: Path) -> None:
    _, said = read(root, CSV + "z.png,cat\nb/d.png,\n")
    assert "2 of 3 images have a label (not 'b/d.png'); 1 lines name no image ('z.png')" in said


def test_numbers_are_labels_and_null_is_none(root: Path) -> None:
    text = '{"path": "a.png", "label": 3}\n{"path": "b/c.png", "label": [4, "x"]}\n{"path": "b/d.png", "label": null}\n'
    assert labels_of(read(root, text, "labels.jsonl")[0]) == {"a.png": {"3"}, "b/c.png": {"4", "x"}}


def test_the_file_may_lie_in_a_folder_and_parts_stay(root: Path) -> None:
    for part in ("train", "test"):
        (root / part).mkdir()
        shutil.copy(root / "a.png", root / part)
    (root / "lists").mkdir()
    images, _ = read(root, "path,label\ntrain/a.png,cat\ntest/a.png,dog\n", "lists/labels.csv")
    assert dict(zip(images.ids, images.parts, strict=True)) == {"train/a.png": "train", "test/a.png": "test"}


def test_the_inventory_changes_with_the_file_and_names_no_place(root: Path) -> None:
    read(root, CSV)
    first = json.loads((root.parent / "raw/folder/inventory.json").read_text())
    read(root, CSV + "b/d.png,dog\n")
    second = json.loads((root.parent / "raw/folder/inventory.json").read_text())
    assert first["labels"]["file"] == "labels.csv"
    assert first["labels"]["sha256"] != second["labels"]["sha256"]
    assert str(root.parent) not in json.dumps(second)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("labels.csv", "file,label\na.png,cat\n", r"has no column 'path' or 'id' \(found file, label\)"),
        ("labels.csv", "path,class\na.png,cat\n", r"has no column 'label' or 'labels' \(found path, class\)"),
        ("labels.csv", "path,id,label\na.png,a.png,cat\n", "two columns of one name"),
        ("labels.csv", "path,label\na.png\n", "line 2 has another number of cells"),
        ("labels.csv", "path,label\nz.png,cat\n", "none of the 3 images a label, such as 'a.png', but names 'z.png'"),
        ("labels.csv", "path,label\n", "but names nothing"),
        (
            "labels.csv",
            "path,label\na.png,cat\nb/c.png,cat\n",
            "all images the one label 'cat', so that mAP",
        ),
        ("labels.jsonl", '{"path": "a.png"}', r"line 1 must have one of 'label' or 'labels' \(found path\)"),
        ("labels.jsonl", '\n["a.png", "cat"]', "line 2 has no JSON object"),
        ("labels.jsonl", '{"path": "a.png", "label": "cat"', "line 1 is no JSON"),
        ("labels.jsonl", '{"path": "a.png", "label": 0.5}', "found the label 0.5, wanted are texts"),
        ("labels.jsonl", '{"path": ["a.png"], "label": "cat"}', r"found the path \['a.png'\], wanted is a text"),
    ],
)
def test_what_is_no_file_of_labels(root: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(root, text, name)
    assert not (root.parent / "raw/folder").exists()


def test_a_file_of_another_encoding_or_elsewhere_or_missing(root: Path) -> None:
    with pytest.raises(DataError, match="cannot be read as a CSV file in UTF-8"):
        read(root, "path,label\na.png,bär\n", encoding="utf-16")
    (root.parent / "labels.csv").write_text(CSV)
    with pytest.raises(DataError, match=r"found \.\./labels.csv, which leads out of dataset.root"):
        registry.fetch("folder", raw=root.parent / "raw", root=root, labels="../labels.csv")
    with pytest.raises(DataError, match=r"there is no file .*absent.csv: its path is relative to dataset.root"):
        registry.fetch("folder", raw=root.parent / "raw", root=root, labels="absent.csv")


def test_an_inventory_without_these_labels_names_the_command(root: Path) -> None:
    registry.fetch("folder", raw=root.parent / "raw", root=root, say=lambda line: None)
    with pytest.raises(DataError, match=r"has no labels from labels\.csv: run `dvc repro download`"):
        registry.open_images("folder", raw=root.parent / "raw", root=root, labels="labels.csv")
