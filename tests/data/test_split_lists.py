"""The community's lists: lines as they are published, every way in which lists lie about, and what goes wrong.

The real lists are read where this machine has them (NSH_SHARED_DATA), and compared with an independent reading.
"""

import json
import os
import tarfile
from pathlib import Path

import pytest

from nsh.data import coco, nuswide, split_lists
from nsh.data.listing import Listed, Listing
from nsh.errors import DataError

SHARED = Path(os.environ.get("NSH_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))
COCO, NUSWIDE = SHARED / "coco/hashnet-lists.tar.xz", SHARED / "nuswide/lists.tar.xz"
needs_coco = pytest.mark.skipif(not COCO.exists(), reason="no COCO lists on this machine (NSH_SHARED_DATA)")
needs_nuswide = pytest.mark.skipif(not NUSWIDE.exists(), reason="no NUS-WIDE lists on this machine (NSH_SHARED_DATA)")
CLASSES = ("sky", "clouds", "person")
# As published, cut to three classes: DeepHash-pytorch's flat folder, the original folders, Windows' separators.
FLAT = "images/0571_262727880.jpg 1 1 0"
FOLDERS = "actor/0242_1431737410.jpg 0 0 1"
WINDOWS = r"actor\0002_174174086.jpg 0 1 0"
KEYS = ("0571_262727880.jpg", "0242_1431737410.jpg", "0002_174174086.jpg")


def write(root: Path, **lists: str) -> list[str]:
    """Files by name without suffix, two underscores for a slash; their paths below `root`."""
    for name, text in lists.items():
        path = root / f"{name.replace('__', '/')}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.txt"))


def read(root: Path, **lists: str) -> Listing | None:
    return split_lists.read(root, write(root, **lists), classes=CLASSES, key=nuswide.key)


def test_a_line_is_a_path_and_a_value_for_each_class(tmp_path: Path) -> None:
    listing = read(tmp_path, test=f"{FLAT}\n", train=f"{FOLDERS}\r\n", database=f"\ufeff{WINDOWS}  \r\n\r\n")
    assert listing.images == {
        KEYS[0]: Listed(KEYS[0], "test", (0, 1)),
        KEYS[1]: Listed(KEYS[1], "train", (2,)),
        KEYS[2]: Listed(KEYS[2], "gallery", (1,)),
    }
    assert listing.files == ("database.txt", "test.txt", "train.txt")


def test_a_query_is_only_a_query_and_the_gallery_is_the_rest(tmp_path: Path) -> None:
    both = f"{FLAT}\n{FOLDERS}\n{WINDOWS}\n"
    listing = read(tmp_path, test=FLAT, train=f"{FOLDERS}\n{FLAT}", database=both)
    assert [image.part for image in listing.images.values()] == ["test", "train", "gallery"]


def test_without_a_training_list_all_that_is_searched_may_learn(tmp_path: Path) -> None:
    listing = read(tmp_path, test=FLAT, database=f"{FLAT}\n{FOLDERS}")
    assert [image.part for image in listing.images.values()] == ["test", "train"]


@pytest.mark.parametrize(
    "lists",
    [
        {"nuswide_21_test": FLAT, "nuswide_21_train": FOLDERS, "nuswide_21_database": WINDOWS},
        {"lists__Test": FLAT, "lists__TRAIN": FOLDERS, "lists__database": WINDOWS},
        {"test0": FLAT, "train": FOLDERS, "database1": FOLDERS, "database2": WINDOWS},
        {
            "test_img": "images/0571_262727880.jpg",
            "test_label_onehot": "1 1 0",
            "train_img": r"actor\0242_1431737410.jpg",
            "train_label_onehot": "0 0 1 ",
            "database_img": "actor/0002_174174086.jpg\n",
            "database_label_onehot": "0 1 0\n",
        },
    ],
)
def test_lists_have_a_prefix_a_folder_shards_or_labels_apart(tmp_path: Path, lists: dict[str, str]) -> None:
    listing = read(tmp_path, **lists, README="about these lists", img_tc10="other", Labels_sky_Test="0\n1")
    assert {key: image[1:] for key, image in listing.images.items()} == {
        KEYS[0]: ("test", (0, 1)),
        KEYS[1]: ("train", (2,)),
        KEYS[2]: ("gallery", (1,)),
    }
    assert len(listing.files) == len(lists)


def test_columns_may_be_named(tmp_path: Path) -> None:
    listing = read(tmp_path, test=FLAT, database=FOLDERS, columns="clouds\nperson\nsky\n")
    assert [image.labels for image in listing.images.values()] == [(1, 2), (0,)]
    assert "columns.txt" in listing.files  # its digest is kept beside the lists'


def test_names_keep_their_spaces(tmp_path: Path) -> None:
    listing = split_lists.read(
        tmp_path, write(tmp_path, test="my images/a b.jpg 1 0 0", database=FLAT), classes=CLASSES, key=lambda name: name
    )
    assert next(iter(listing.images.values())) == Listed("a b.jpg", "test", (0,))


def test_no_lists_are_no_fault(tmp_path: Path) -> None:
    assert read(tmp_path, Imagelist=WINDOWS, Labels_sky_Train="0", Groundtruth__Labels_sky_Test="0") is None


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"test": FLAT, "train": FOLDERS}, "found the lists test.txt, train.txt, but none of database: put"),
        ({"train": FOLDERS}, "but none of test and database"),
        ({"test0": FLAT, "test2": FLAT, "database": FOLDERS}, "test0.txt, test2.txt are not all of test"),
        ({"test3": FLAT, "database": FOLDERS}, "test3.txt are not all of test"),
        ({"a__test": FLAT, "b__test": FLAT}, r"lists of 2 splits \(as a/test.txt, b/test.txt\): keep those of one"),
        ({"m_test": FLAT, "test": FLAT}, "lists of 2 splits"),
        ({"test_img": "a.jpg", "test": FLAT}, "lists of 2 splits"),
        ({"test": FLAT, "test0": FLAT, "database": FLAT}, "test0.txt and test.txt are the same list twice"),
        ({"test_img": "a.jpg", "database_img": "b.jpg"}, "database needs both of database_img and database_label"),
        (
            {"test_img": "a.jpg\nb.jpg", "test_label_onehot": "1 0 0", "database_img": "", "database_label_onehot": ""},
            "test_img.txt has 2 lines and test_label_onehot.txt 1: one is cut",
        ),
        ({"test": f"{FLAT}\n{FOLDERS[:-4]}", "database": ""}, "test.txt, line 2: found 'actor/.* 3 times 0 or 1"),
        ({"test": f"{FLAT} 1", "database": ""}, "test.txt, line 1: found"),
        ({"test": FLAT.replace("1 1 0", "1 2 0"), "database": ""}, "allowed is an image's path and 3 times 0 or 1"),
        ({"test": "images/0571_2", "database": ""}, "test.txt, line 1: found 'images/0571_2', allowed"),
        ({"test": FLAT, "database": FLAT.replace("1 1", "1 0")}, "database.txt, line 1: '0571_.*' has other labels"),
        (
            {"test": "images/83796_799247112_276c55a843_m.jpg 1 1 0", "database": FLAT},
            "'83796_799247112_276c55a843_m.jpg' is no image name of this data set: another set's list",
        ),
        ({"test": FLAT, "database": FLAT, "columns": "sky\nclouds"}, "too many or too few are person"),
        ({"test": FLAT, "database": FLAT, "columns": "sky\nsky\nclouds\nperson"}, "a name twice"),
        ({"test": FLAT, "database": FLAT, "columns": "sky", "a__columns": "sky"}, "one file is allowed"),
    ],
)
def test_lists_that_cannot_be_right_are_one_sentence(tmp_path: Path, lists: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, **lists)


def test_a_list_that_is_no_text_says_so(tmp_path: Path) -> None:
    files = write(tmp_path, test=FLAT, database=FLAT)
    (tmp_path / "test.txt").write_bytes(b"\x1f\x8b\x08\xff")
    with pytest.raises(DataError, match=r"test.txt is no UTF-8 text"):
        split_lists.read(tmp_path, files, classes=CLASSES, key=nuswide.key)


def unpack(archive: Path, into: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    return sorted(path.relative_to(into).as_posix() for path in into.rglob("*.txt"))


@needs_coco
def test_hashnets_coco_lists_are_the_published_set(tmp_path: Path) -> None:
    files = unpack(COCO, tmp_path)
    listing = split_lists.read(tmp_path, files, classes=coco.CLASSES, key=coco.key)
    assert list(coco.CLASSES) == json.loads((tmp_path / "hashnet_column_order.json").read_text())
    assert len(listing.images) == coco.SET.published
    assert all(image.labels for image in listing.images.values())
    parts = [image.part for image in listing.images.values()]
    assert {part: parts.count(part) for part in set(parts)} == {"test": 5_000, "train": 10_000, "gallery": 107_218}
    lines = [line for number in range(8) for line in (tmp_path / f"test{number}.txt").read_text().splitlines()]
    queries = {line.split()[0][-16:-4] for line in lines}
    assert {key for key, image in listing.images.items() if image.part == "test"} == queries


@needs_nuswide
@pytest.mark.parametrize("name", ["deephash", "mlmo"])
def test_nuswide_lists_of_both_layouts_agree_on_labels(tmp_path: Path, name: str) -> None:
    """There is no database list here: the training list stands for it."""
    unpack(NUSWIDE, tmp_path / "all")
    lists = {part: (tmp_path / f"all/{name}_nuswide_21_{part}.txt").read_text() for part in ("test", "train")}
    files = write(tmp_path / "one", **lists, database=lists["train"])
    listing = split_lists.read(tmp_path / "one", files, classes=nuswide.CLASSES, key=nuswide.key)
    parts = [image.part for image in listing.images.values()]
    assert (parts.count("test"), parts.count("train"), len(parts)) == (2_100, 10_500, 12_600)
    other = "mlmo" if name == "deephash" else "deephash"
    values = {}
    for line in (tmp_path / f"all/{other}_nuswide_21_train.txt").read_text().splitlines():
        path, *columns = line.split()
        values[path.split("/")[-1]] = tuple(place for place, value in enumerate(columns) if value == "1")
    common = values.keys() & listing.images.keys()
    assert len(common) > 900
    assert {key: listing.images[key].labels for key in common} == {key: values[key] for key in common}


@needs_nuswide
def test_lists_of_another_nuswide_are_refused(tmp_path: Path) -> None:
    unpack(NUSWIDE, tmp_path / "all")
    text = (tmp_path / "all/deephash_nuswide_21_m_test.txt").read_text()
    with pytest.raises(DataError, match="is no image name of this data set"):
        split_lists.read(
            tmp_path, write(tmp_path, test=text, database=text)[-2:], classes=nuswide.CLASSES, key=nuswide.key
        )
