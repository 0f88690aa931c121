"""NUS-WIDE's own files in their real form, and its real image list and lists where this machine has them."""

import os
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nsh.data import nuswide, registry
from nsh.data.draw import Sizes, draw
from nsh.data.listed import ListedImages
from nsh.data.take import take_per_class
from nsh.errors import DataError

SHARED = Path(os.environ.get("NSH_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))
LISTS = SHARED / "nuswide/lists.tar.xz"
# Lines of the real list; its ends are Windows' in some archives.
NAMES = [
    r"actor\0002_174174086.jpg",
    r"actor\0005_262041423.jpg",
    r"swimming_pools\0378_324737166.jpg",
    r"zoos\0596_391097803.jpg",
    r"zoos\0598_144768190.jpg",
]
LABELS = [("person", "sky"), ("mountain",), ("water", "sky", "tree"), (), ("animal",)]


def write(path: Path, lines: list[str], end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode())


def publish(
    root: Path, rows: slice = slice(None), *, names: str = "Imagelist", labels: str = "All", half: str = ""
) -> None:
    """The image list and a file of labels for each concept, others of the 81 beside the 21."""
    write(root / f"ImageList/{names}.txt", NAMES[rows], end="\r\n")
    for concept in (*nuswide.CLASSES, "zebra", "airport"):
        values = [str(int(concept in image)) for image in LABELS[rows]]
        write(root / f"Groundtruth/{labels}Labels/Labels_{concept}{half}.txt", values)


def paint(root: Path, *, flat: bool = False) -> None:
    for number, name in enumerate(NAMES):
        path = root / ("images" if flat else "Flickr") / (name.split("\\")[1] if flat else name.replace("\\", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (40 * number, 2, 3)).save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    publish(folder)
    paint(folder)
    return folder


def fetch(root: Path) -> tuple[list[str], ListedImages]:
    said: list[str] = []
    registry.fetch("nuswide", raw=root.parent / "raw", root=root, say=said.append)
    return said, registry.open_images("nuswide", raw=root.parent / "raw", root=root, labels="folder")


def names(images: ListedImages) -> dict[str, set[str]]:
    return {
        Path(image).name: {images.classes[row] for row in labels}
        for image, labels in zip(images.ids, images.labels, strict=True)
    }


EXPECTED = {name.split("\\")[1]: set(labels) for name, labels in zip(NAMES, LABELS, strict=True) if labels}


def test_the_publishers_files_name_and_label_images(root: Path) -> None:
    said, images = fetch(root)
    assert names(images) == EXPECTED
    assert images.ids[0] == "Flickr/actor/0002_174174086.jpg"
    assert images.labels[0] == (0, 2)  # sky before person, as the lists' columns
    assert images.parts == [""] * 4
    assert said[0] == (
        "nuswide: ImageList/Imagelist.txt and 21 more files name 4 images with a label, of 195834 published; "
        "1 without one are left out"
    )
    assert "1 images that are not named, or have no label" in said[1]


def test_the_halves_together_are_the_whole(root: Path) -> None:
    _, whole = fetch(root)
    for path in root.rglob("*.txt"):
        path.unlink()
    publish(root, slice(3), names="TrainImagelist", labels="TrainTest", half="_Train")
    publish(root, slice(3, None), names="TestImagelist", labels="TrainTest", half="_Test")
    _, halves = fetch(root)
    assert (halves.ids, halves.labels, halves.parts) == (whole.ids, whole.labels, whole.parts)


def test_a_mirror_keeps_all_images_in_one_folder(tmp_path: Path) -> None:
    publish(tmp_path / "root")
    paint(tmp_path / "root", flat=True)
    _, images = fetch(tmp_path / "root")
    assert names(images) == EXPECTED
    assert images.ids[0] == "images/0002_174174086.jpg"


def columns(*labels: str) -> str:
    return " ".join(str(int(name in labels)) for name in nuswide.CLASSES)


def test_the_communitys_lists_come_before_the_publishers(root: Path) -> None:
    write(root / "nuswide_21_test.txt", [f"images/0002_174174086.jpg {columns('sky')}"])
    write(root / "nuswide_21_database.txt", [f"images/0005_262041423.jpg {columns('beach')}"])
    _, images = fetch(root)
    assert names(images) == {"0002_174174086.jpg": {"sky"}, "0005_262041423.jpg": {"beach"}}
    assert images.parts == ["test", "train"]


@pytest.mark.parametrize(
    ("file", "lines", "message"),
    [
        ("Groundtruth/AllLabels/Labels_sky.txt", ["1", "0", "1"], "has 3 lines, allowed are 5 times 0 or 1"),
        ("Groundtruth/AllLabels/Labels_sky.txt", ["1", "0", "1", "2", "0"], "Labels_sky.txt has 5 lines, allowed"),
        ("ImageList/Imagelist.txt", NAMES[:2], "Labels_sky.txt has 5 lines, allowed are 2 times 0 or 1, a line for"),
        ("again/Labels_sky.txt", ["1"], "needs Labels_sky.txt: found Groundtruth/.*, again/.*, allowed is one"),
        ("ImageList/Imagelist.txt", [*NAMES[:4], "notes.txt"], "line 5: 'notes.txt' is no image name"),
        ("ImageList/Imagelist.txt", [*NAMES[:4], NAMES[0]], "line 5: '0002_174174086.jpg' has other labels"),
    ],
)
def test_cut_files_are_one_sentence(root: Path, file: str, lines: list[str], message: str) -> None:
    write(root / file, lines)
    with pytest.raises(DataError, match=message):
        fetch(root)


def test_a_missing_concept_is_named_with_what_is_wanted(root: Path) -> None:
    (root / "Groundtruth/AllLabels/Labels_rocks.txt").unlink()
    with pytest.raises(DataError, match=r"needs Labels_rocks.txt: it is missing; wanted are ImageList/Imagelist.txt"):
        fetch(root)


def test_one_half_alone_is_not_taken_for_the_whole(root: Path) -> None:
    (root / "ImageList/Imagelist.txt").rename(root / "ImageList/TestImagelist.txt")
    with pytest.raises(DataError, match=r"NUS-WIDE needs TrainImagelist.txt: it is missing"):
        fetch(root)


@pytest.mark.skipif(not LISTS.exists(), reason="no NUS-WIDE lists on this machine (NSH_SHARED_DATA)")
def test_the_real_names_have_keys_of_their_own(tmp_path: Path) -> None:
    with tarfile.open(LISTS) as tar:
        lines = tar.extractfile("TestImagelist.txt").read().decode().split("\n")
    keys = [nuswide.key(line.strip().split("\\")[1]) for line in lines if line]
    assert None not in keys
    assert len(set(keys)) == len(keys) == 107_859


@pytest.mark.skipif(not LISTS.exists(), reason="no NUS-WIDE lists on this machine (NSH_SHARED_DATA)")
def test_the_protocols_draw_on_the_real_labels(tmp_path: Path) -> None:
    """100 queries and 200 training images of each class, of the 10,500 really listed for training."""
    with tarfile.open(LISTS) as tar:
        lines = tar.extractfile("deephash_nuswide_21_train.txt").read().decode().splitlines()
    labels = [tuple(np.flatnonzero([value == "1" for value in line.split()[1:]]).tolist()) for line in lines]
    images = ListedImages(
        "nuswide",
        [
            {"path": line.split()[0], "sha256": None, "part": "", "labels": row}
            for line, row in zip(lines, labels, strict=True)
        ],
        root=tmp_path,
        classes=nuswide.CLASSES,
    )
    images.inspect = lambda image_id: image_id
    drawn = draw(images, Sizes(train=4_200, gallery=None, query=2_100), seed=0, take=take_per_class)
    for part, share in (("query", 100), ("train", 200)):
        rows = drawn.parts[part].labels
        assert len(rows) == 21 * share
        counts = Counter(row for image in rows for row in image)
        assert all(counts[row] >= share for row in range(21))
        assert counts[0] > 2 * share  # sky: images that stand for other classes show it too
    assert len(drawn.parts["gallery"].ids) == 8_400
