r"""NUS-WIDE: photos from Flickr with 81 concepts, of which the hashing protocol takes the 21 most frequent.

Chua et al., "NUS-WIDE: A Real-World Web Image Database from National University of Singapore", CIVR 2009. Its files
name images with Windows separators, in folders of search words (`actor\0001_2124494179.jpg`); mirrors keep them in
one folder. The file name alone is the key: no two images share one, while two of a Flickr id there are. NUS-WIDE-m of
HashNet's authors is another set with other names, and not read.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nsh.data.listed import ListedSet
from nsh.data.listing import Listing, Row, merge, read_lines
from nsh.errors import DataError

CLASSES = (
    *("sky", "clouds", "person", "water", "animal", "grass", "buildings", "window", "plants", "lake", "ocean"),
    *("road", "flowers", "sunset", "reflection", "rocks", "vehicle", "snow", "tree", "beach", "mountain"),
)
"""The 21 most frequent concepts, as the columns of the community's lists are ordered."""

_NAME = re.compile(r"\d+_\d+\.jpg", re.IGNORECASE)
_WHOLE = {"Imagelist.txt": ""}
_HALVES = {"TrainImagelist.txt": "_Train", "TestImagelist.txt": "_Test"}


def key(name: str) -> str | None:
    """The file name in lower case, which is a number within the search word and the id at Flickr."""
    return name.lower() if _NAME.fullmatch(name) else None


def read_ground_truth(root: Path, files: Sequence[str]) -> Listing | None:
    """Read the publisher's image lists and labels among `files`, or None where there is no image list.

    Imagelist.txt goes with Labels_<concept>.txt; without it TrainImagelist.txt and TestImagelist.txt go with
    Labels_<concept>_Train.txt and Labels_<concept>_Test.txt. The two halves are no parts of the hashing protocol.

    Raises:
        DataError: a file is missing, cut, or there twice.
    """
    paths: dict[str, list[str]] = {}
    for path in files:
        paths.setdefault(Path(path).name.lower(), []).append(path)
    if not any(name.lower() in paths for name in (*_WHOLE, *_HALVES)):
        return None
    rows: list[Row] = []
    used: list[str] = []
    for image_list, half in (_HALVES if paths.keys().isdisjoint(map(str.lower, _WHOLE)) else _WHOLE).items():
        of_half = [_one(paths, name) for name in (image_list, *(f"Labels_{name}{half}.txt" for name in CLASSES))]
        rows += _read_rows(root, *of_half)
        used += of_half
    return Listing(files=tuple(used), images=merge([("", rows)], key=key))


def _one(paths: dict[str, list[str]], name: str) -> str:
    found = paths.get(name.lower(), [])
    if len(found) != 1:
        several = f"found {', '.join(found)}, allowed is one" if found else "it is missing"
        raise DataError(f"NUS-WIDE needs {name}: {several}; wanted are {SET.wanted}")
    return found[0]


def _read_rows(root: Path, image_list: str, *label_files: str) -> Iterator[Row]:
    names = read_lines(root / image_list)
    columns = [_read_column(root, path, len(names), image_list) for path in label_files]
    for number, (name, values) in enumerate(zip(names, np.stack(columns, axis=1), strict=True), start=1):
        labels = tuple(int(place) for place in np.flatnonzero(values))
        yield Row(name, labels, f"{image_list}, line {number}")


def _read_column(root: Path, path: str, images: int, image_list: str) -> NDArray[np.bool_]:
    values = read_lines(root / path)
    if len(values) != images or not {"0", "1"}.issuperset(values):
        raise DataError(
            f"{path} has {len(values)} lines, allowed are {images} times 0 or 1, a line for each of {image_list}: one "
            "of the two is cut, fetch both again"
        )
    column: NDArray[np.bool_] = np.array(values) == "1"
    return column


SET = ListedSet(
    classes=CLASSES,
    published=195_834,
    key=key,
    read_official=read_ground_truth,
    wanted=(
        "ImageList/Imagelist.txt and Groundtruth/AllLabels/Labels_<concept>.txt of the publisher "
        "(lms.comp.nus.edu.sg, NUS-WIDE), or the lists test, database and train of "
        "github.com/swuxyj/DeepHash-pytorch (data/nuswide_21) or github.com/TreezzZ/DSDH_PyTorch; and the images "
        "(0001_2124494179.jpg, ...) from the publisher or a mirror, unpacked into any folders there"
    ),
)
