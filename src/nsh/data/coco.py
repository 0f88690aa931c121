"""MS COCO: photos with the objects in them, 80 categories (Lin et al., "Microsoft COCO", ECCV 2014).

The images of train and val, whichever year's: 2017 dealt those of 2014 anew. The publisher's own parts are no
parts of the hashing protocol, which draws its queries from all images, so that its annotations give none. An image's
name ends in twelve digits in every year, list and archive; they are its key.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nsh.data.listed import ListedSet
from nsh.data.listing import Listing, Row, merge
from nsh.errors import DataError

CLASSES = (
    *("airplane", "apple", "backpack", "banana", "baseball bat", "baseball glove", "bear", "bed", "bench", "bicycle"),
    *("bird", "boat", "book", "bottle", "bowl", "broccoli", "bus", "cake", "car", "carrot", "cat", "cell phone"),
    *("chair", "clock", "couch", "cow", "cup", "dining table", "dog", "donut", "elephant", "fire hydrant", "fork"),
    *("frisbee", "giraffe", "hair drier", "handbag", "horse", "hot dog", "keyboard", "kite", "knife", "laptop"),
    *("microwave", "motorcycle", "mouse", "orange", "oven", "parking meter", "person", "pizza", "potted plant"),
    *("refrigerator", "remote", "sandwich", "scissors", "sheep", "sink", "skateboard", "skis", "snowboard", "spoon"),
    *("sports ball", "stop sign", "suitcase", "surfboard", "teddy bear", "tennis racket", "tie", "toaster", "toilet"),
    *("toothbrush", "traffic light", "train", "truck", "tv", "umbrella", "vase", "wine glass", "zebra"),
)
"""By name, as the columns of HashNet's lists are ordered, and not by the publisher's category ids."""

_KEY = re.compile(r"\d{12}(?=\.\w+$)")
_ANNOTATIONS = re.compile(r"instances_(?:train|val)(?P<year>2014|2017)\.json")
_KEPT = frozenset({"images", "annotations", "categories", "id", "file_name", "image_id", "category_id", "name"})


def key(name: str) -> str | None:
    """The twelve digits before the suffix."""
    match = _KEY.search(name)
    return match[0] if match else None


def read_annotations(root: Path, files: Sequence[str]) -> Listing | None:
    """Read the instances_*.json among `files`, those of 2014 where there are two years, or None without any.

    Raises:
        DataError: one is cut, is no such file, or contradicts another.
    """
    years = defaultdict(list)
    for path in files:
        match = _ANNOTATIONS.fullmatch(Path(path).name)
        if match:
            years[match["year"]].append(path)
    if not years:
        return None
    paths = years[min(years)]
    rows = [row for path in paths for row in _read_rows(root, path)]
    return Listing(files=tuple(paths), images=merge([("", rows)], key=key))


def _read_rows(root: Path, path: str) -> list[Row]:
    try:
        content = _read_json(root / path)
        names = {category["id"]: category["name"] for category in content["categories"]}
        labels: dict[int, set[int]] = {image["id"]: set() for image in content["images"]}
        _check_categories(path, names)
        for annotation in content["annotations"]:
            labels[annotation["image_id"]].add(CLASSES.index(names[annotation["category_id"]]))
        return [Row(image["file_name"], tuple(sorted(labels[image["id"]])), path) for image in content["images"]]
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} is not laid out as COCO's instances files (at {error}): fetch it again") from error


def _read_json(path: Path) -> dict[str, Any]:
    """The document without what is not needed: outlines are most of its half a gigabyte."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            content = json.load(file, object_pairs_hook=lambda pairs: {k: v for k, v in pairs if k in _KEPT})
    except ValueError as error:
        raise DataError(f"{path} is no whole JSON document ({error}): fetch it again") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} is no JSON object: fetch it again")
    return content


def _check_categories(path: str, names: dict[int, str]) -> None:
    strange = sorted(set(names.values()) ^ set(CLASSES))
    if strange:
        raise DataError(
            f"{path} has other categories than COCO's {len(CLASSES)}; too many or too few are {', '.join(strange)}"
        )


SET = ListedSet(
    classes=CLASSES,
    published=122_218,
    key=key,
    read_official=read_annotations,
    wanted=(
        "instances_train2014.json and instances_val2014.json, or 2017, from the publisher's annotations archive "
        "(cocodataset.org), or the lists test, database and train of github.com/thuml/HashNet (pytorch/data/coco); "
        "and the images of train and val of either year (cocodataset.org), unpacked into any folders there"
    ),
)
