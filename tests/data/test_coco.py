"""COCO's annotations and lists: a small set written as published, and the real sample where this machine has it."""

import json
import os
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from nsh.data import coco, registry, split_lists
from nsh.data.draw import Sizes, draw
from nsh.data.listed import ListedImages
from nsh.errors import DataError, UnreadableImage

SHARED = Path(os.environ.get("NSH_SHARED_DATA", Path(__file__).parents[3] / "shared/data")) / "coco"
needs_sample = pytest.mark.skipif(
    not (SHARED / "coco-sample-159.tar").exists(), reason="no COCO images on this machine (NSH_SHARED_DATA)"
)
# The publisher's ids have gaps, and are not in the order of names.
CATEGORIES = [
    {"supercategory": "x", "id": 3 * row + 1, "name": name} for row, name in enumerate(reversed(coco.CLASSES))
]
IDS = {category["name"]: category["id"] for category in CATEGORIES}
LABELS = {139: ["person", "chair", "person"], 285: ["bear"], 632: [], 724: ["truck", "stop sign"], 776: ["teddy bear"]}


def annotate(path: Path, images: list[int], /, *, prefix: str = "", **changes: object) -> Path:
    """An instances file of `images`, laid out as published; outlines and crowds included."""
    annotations = [
        {
            "segmentation": {"counts": [1, 2], "size": [3, 4]} if name == "bear" else [[1.5, 2.5, 3.5, 4.5]],
            "area": 1.25,
            "iscrowd": int(name == "bear"),
            "image_id": image,
            "bbox": [0, 1, 2, 3],
            "category_id": IDS[name],
            "id": 1000 * image + row,
        }
        for image in images
        for row, name in enumerate(LABELS[image])
    ]
    described = [{"license": 1, "file_name": f"{prefix}{image:012}.jpg", "height": 8, "id": image} for image in images]
    document = {"info": {"year": 2017}, "images": described, "annotations": annotations, "categories": CATEGORIES}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document | changes))
    return path


def paint(path: Path, colour: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (colour % 256, 2, 3)).save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Train and val of 2017, whole."""
    folder = tmp_path / "root"
    annotate(folder / "annotations/instances_train2017.json", [285, 632, 776])
    annotate(folder / "annotations/instances_val2017.json", [724, 139])
    for image in LABELS:
        paint(folder / f"{'val' if image in (724, 139) else 'train'}2017/{image:012}.jpg", image)
    return folder


def fetch(root: Path) -> tuple[list[str], ListedImages]:
    said: list[str] = []
    raw = root.parent / "raw"
    registry.fetch("coco", raw=raw, root=root, say=said.append)
    return said, registry.open_images("coco", raw=raw, root=root, labels="folder")


def header(root: Path) -> dict:
    return json.loads((root.parent / "raw/coco/inventory.json").read_text())


def names(images: ListedImages) -> dict[str, list[str]]:
    return {
        image: [images.classes[row] for row in labels] for image, labels in zip(images.ids, images.labels, strict=True)
    }


def test_labels_are_names_and_images_without_any_are_dropped(root: Path) -> None:
    said, images = fetch(root)
    assert names(images) == {
        "val2017/000000000139.jpg": ["chair", "person"],
        "train2017/000000000285.jpg": ["bear"],
        "val2017/000000000724.jpg": ["stop sign", "truck"],
        "train2017/000000000776.jpg": ["teddy bear"],
    }
    assert images.parts == [""] * 4
    assert images.classes == coco.CLASSES
    assert "name 4 images with a label, of 122218 published; 1 without one are left out" in said[0]
    assert said[1].startswith(f"coco: 0 of them are missing in {root}")
    counts = {key: header(root)[key] for key in ("images", "published", "without_labels", "missing")}
    assert counts == {"images": 4, "published": 122_218, "without_labels": 1, "missing": 0}


def test_without_labels_images_and_order_stay(root: Path) -> None:
    _, labelled = fetch(root)
    images = registry.open_images("coco", raw=root.parent / "raw", root=root, labels="none")
    assert (images.ids, images.labels, images.classes) == (labelled.ids, None, None)


def test_names_of_2014_find_files_of_2017_and_the_split_is_the_same(root: Path) -> None:
    _, by_2017 = fetch(root)
    for path in (root / "annotations").iterdir():
        path.unlink()
    annotate(root / "instances_train2014.json", [139, 285, 632], prefix="COCO_train2014_")
    annotate(root / "instances_val2014.json", [724, 776], prefix="COCO_val2014_")
    _, by_2014 = fetch(root)
    assert names(by_2014) == names(by_2017)
    sizes = Sizes(train=2, gallery=None, query=1)
    drawn = draw(by_2017, sizes, seed=0)
    assert draw(by_2014, sizes, seed=0) == drawn
    for number, path in enumerate(sorted(root.glob("*2017/*.jpg"))):  # other folders: the same images in the same order
        path.rename(root / f"{number}_COCO_{path.name}")
    _, moved = fetch(root)
    assert draw(moved, sizes, seed=0).parts["gallery"].sha256 == drawn.parts["gallery"].sha256


def test_of_two_years_the_papers_is_read_and_an_image_is_taken_once(root: Path) -> None:
    annotate(root / "annotations/instances_val2014.json", [139, 285], prefix="COCO_val2014_")
    paint(root / "val2014/COCO_val2014_000000000139.jpg", 139)
    _, images = fetch(root)
    assert images.ids == ["val2014/COCO_val2014_000000000139.jpg", "train2017/000000000285.jpg"]
    assert header(root)["files"].keys() == {"annotations/instances_val2014.json"}
    assert header(root)["ignored"] == {
        "files that are no images by name": 3,
        "further files of an image": 1,
        "images that are not named, or have no label": 3,
    }


def columns(*labels: str) -> str:
    return " ".join(str(int(name in labels)) for name in coco.CLASSES)


def test_hashnets_lists_come_before_the_annotations(root: Path) -> None:
    line = "./data/coco/val2014/COCO_val2014_000000000{}.jpg {}\n"
    query = line.format(139, columns("person", "chair"))
    (root / "test.txt").write_text(query)
    (root / "train.txt").write_text(line.format(285, columns("bear")))
    (root / "database.txt").write_text(query + line.format(724, columns("truck")))
    said, images = fetch(root)
    assert names(images) == {
        "val2017/000000000139.jpg": ["chair", "person"],
        "train2017/000000000285.jpg": ["bear"],
        "val2017/000000000724.jpg": ["truck"],
    }
    assert images.parts == ["test", "train", "gallery"]
    assert said[0].startswith("coco: database.txt, test.txt, train.txt name 3 images")
    split = draw(images, Sizes(train=None, gallery=None, query=None), seed=0)
    assert split.parts["query"].ids == ["val2017/000000000139.jpg"]
    assert split.parts["train"].ids == ["train2017/000000000285.jpg"]
    assert sorted(split.parts["gallery"].ids) == ["train2017/000000000285.jpg", "val2017/000000000724.jpg"]


def test_images_that_are_named_and_absent_are_counted_and_limited(root: Path) -> None:
    (root / "train2017/000000000285.jpg").unlink()
    said, images = fetch(root)
    assert said[1].startswith("coco: 1 of them are missing in")
    assert header(root)["missing"] == 1
    sizes = Sizes(train=1, gallery=None, query=1)
    with pytest.raises(
        DataError, match=r"1 of 4 images cannot be read.*'000000000285.jpg': cannot be read: No such file"
    ):
        draw(images, sizes, seed=0, max_bad_share=0.01)
    split = draw(images, sizes, seed=0, max_bad_share=0.3)
    assert split.unreadable == [("000000000285.jpg", "cannot be read: No such file or directory")]
    assert len(split.parts["gallery"].ids) == 2
    paint(root / "000000000285.jpg", 1)  # it comes after the inventory
    with pytest.raises(DataError, match="has changed since the download stage"):
        images.inspect("000000000285.jpg")


def test_a_cut_image_is_unreadable(root: Path) -> None:
    path = root / "val2017/000000000139.jpg"
    path.write_bytes(path.read_bytes()[:-100])
    _, images = fetch(root)
    with pytest.raises(UnreadableImage):
        images.inspect("val2017/000000000139.jpg")


def test_without_files_the_wanted_ones_and_their_source_are_named(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/annotations_trainval2014.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(
        DataError,
        match=r"has no files that name images and labels \(unpack annotations_trainval2014.zip; if that fails, fetch "
        r"it again\); wanted are instances_train2014.json and instances_val2014.json, .*cocodataset.org.*HashNet",
    ):
        fetch(tmp_path / "root")
    with pytest.raises(DataError, match=r"nowhere is no folder"):
        fetch(tmp_path / "nowhere")


def test_without_images_the_wanted_ones_are_named(root: Path) -> None:
    for path in root.glob("*2017/*.jpg"):
        path.unlink()
    (root / "train2017.zip.part").touch()
    with pytest.raises(
        DataError,
        match=r"none of the 4 labelled images that .* name \(unpack train2017.zip.part; .* the images of train",
    ):
        fetch(root)
    assert not (root.parent / "raw").exists()


def cut(path: Path) -> None:
    path.write_text(path.read_text()[:-200])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, r"instances_val2017.json is no whole JSON document .*: fetch it again"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "is no whole JSON document"),
        (lambda path: path.write_text("[1]"), "is no JSON object"),
        (lambda path: path.write_text("{}"), r"not laid out as COCO's instances files \(at 'categories'\)"),
        (lambda path: annotate(path, [139], annotations=[{"image_id": 7, "category_id": 1}]), r"\(at 7\)"),
        (lambda path: annotate(path, [139], images=[{"id": 139}]), r"\(at 'file_name'\)"),
        (lambda path: annotate(path, [139], annotations=3), "not laid out"),
        (lambda path: annotate(path, [139], categories=CATEGORIES[1:]), "too many or too few are zebra"),
        (lambda path: annotate(path, [139], categories=[*CATEGORIES, {"id": 99, "name": "yak"}]), "few are yak"),
        (lambda path: annotate(path, [139], images=[{"id": 139, "file_name": "a.jpg"}]), "'a.jpg' is no image name"),
        (lambda path: annotate(path, [285, 139], annotations=[]), "'000000000285.jpg' has other labels than where"),
    ],
)
def test_annotations_that_are_cut_or_of_another_kind_are_one_sentence(root: Path, damage, message: str) -> None:
    damage(root / "annotations/instances_val2017.json")
    with pytest.raises(DataError, match=message):
        fetch(root)


def test_the_classes_are_named_in_the_lists_order() -> None:
    assert list(coco.CLASSES) == sorted(set(coco.CLASSES))
    assert len(coco.CLASSES) == 80


def unpack(name: str, into: Path) -> Path:
    with tarfile.open(SHARED / name) as tar:
        tar.extractall(into, filter="data")
    return into


@needs_sample
def test_the_real_sample_has_its_labels_by_an_independent_reading(tmp_path: Path) -> None:
    root = unpack("coco-sample-159.tar", tmp_path / "root")
    _, images = fetch(root)
    expected: dict[str, set[str]] = {}
    for part in ("train2017", "val2017"):
        content = json.loads((root / f"annotations/instances_{part}.json").read_text())
        for annotation in content["annotations"]:
            (name,) = [one["name"] for one in content["categories"] if one["id"] == annotation["category_id"]]
            expected.setdefault(f"{part}/{annotation['image_id']:012}.jpg", set()).add(name)
    assert {image: set(labels) for image, labels in names(images).items()} == expected
    assert len(expected) == 159
    split = draw(images, Sizes(train=100, gallery=None, query=32), seed=0)
    assert {part: len(rows.ids) for part, rows in split.parts.items()} == {"train": 100, "query": 32, "gallery": 127}


@needs_sample
def test_the_real_lists_give_the_real_images_the_labels_of_their_annotations(tmp_path: Path) -> None:
    root = unpack("coco-sample-159.tar", tmp_path / "root")
    _, annotated = fetch(root)
    lists = unpack("hashnet-lists.tar.xz", tmp_path / "lists")
    files = sorted(path.name for path in lists.glob("*.txt"))
    listing = split_lists.read(lists, files, classes=coco.CLASSES, key=coco.key)
    by_key = {coco.key(image): labels for image, labels in zip(annotated.ids, annotated.labels, strict=True)}
    assert {key: listing.images[key].labels for key in by_key} == by_key
