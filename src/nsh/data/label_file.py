"""Labels of a folder's images from a table that names images and their labels. Opens no image.

    path,label                                 {"path": "beach/1.jpg", "label": "sea"}
    beach/1.jpg,sea                            {"path": "beach/2.jpg", "label": ["sea", "dog"]}
    beach/2.jpg,sea|dog

A path is relative to the folder of the images. Several labels of an image stand in several rows, or in one cell with
`|` between them, or in a JSON list. The columns may be called `id` and `labels` too.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

from nsh.core.names import describe_matches, listed, match
from nsh.core.tables import Row, pick, read_csv, read_json_lines
from nsh.data.imageset import Labels
from nsh.errors import DataError

SEPARATOR = "|"

_PATH, _LABEL = ("path", "id"), ("label", "labels")


class FileLabels(NamedTuple):
    """The labels of images, from a file."""

    classes: tuple[str, ...]
    images: dict[str, Labels]  # by path; only those that have a label
    said: str  # how images and rows match


def read_labels(root: Path, name: str, paths: Sequence[str]) -> FileLabels:
    """Read the labels of the images at `paths` from the file `name`, both relative to `root`.

    Rows name images as `nsh.core.names.match` says: `./`, backslashes and the form of accents do not matter.

    Raises:
        DataError: there is no such file below `root`, it is no table of paths and labels, it gives none of the images
            a label, or all of them the same.
    """
    file = _find(root, name)
    rows = _read_rows(file)
    matches = match(rows, paths)
    found: dict[str, set[str]] = defaultdict(set)
    for spelling, path in matches.ids.items():
        found[path] |= rows[spelling]
    without = [path for path in paths if not found[path]]
    classes = sorted({label for labels in found.values() for label in labels})
    _check(file, classes, rows, paths)
    number = {label: row for row, label in enumerate(classes)}
    images = {path: tuple(sorted(number[label] for label in labels)) for path, labels in found.items() if labels}
    said = describe_matches(len(paths), without, matches.unmatched, of="image", have="a label")
    return FileLabels(tuple(classes), images, said)


def _read_rows(file: Path) -> dict[str, set[str]]:
    """The labels of each path as it is written."""
    read = read_csv if file.suffix.lower() == ".csv" else read_json_lines
    rows: dict[str, set[str]] = defaultdict(set)
    for row in read(file, needed=[_PATH, _LABEL]):
        rows[_path(row)].update(_labels(row))
    return rows


def _find(root: Path, name: str) -> Path:
    """The file, which lies below `root`: DVC watches that folder, so that an edited file is noticed."""
    file = root / name
    if not file.resolve().is_relative_to(root.resolve()):
        raise DataError(f"dataset.labels: found {name}, which leads out of dataset.root, {root}: put it there")
    if not file.is_file():
        raise DataError(f"dataset.labels: there is no file {file}: its path is relative to dataset.root")
    return file


def _path(row: Row) -> str:
    path = pick(row.cells, _PATH)
    if not isinstance(path, str):
        raise DataError(f"{row.where}: found the path {path!r}, wanted is a text: mend it")
    return path


def _labels(row: Row) -> Iterator[str]:
    value = pick(row.cells, _LABEL)
    for one in value if isinstance(value, list) else [value]:
        yield from (label for text in _text(one, row).split(SEPARATOR) if (label := normalize("NFC", text.strip())))


def _text(value: Any, row: Row) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"{row.where}: found the label {value!r}, wanted are texts or whole numbers: mend it")
    return str(value)


def _check(file: Path, classes: Sequence[str], rows: dict[str, set[str]], paths: Sequence[str]) -> None:
    if not classes:
        raise DataError(
            f"{file} gives none of the {len(paths)} images a label, such as {paths[0]!r}, but names "
            f"{listed(list(rows)) or 'nothing'}: write paths relative to dataset.root"
        )
    if len(classes) == 1:
        raise DataError(
            f"{file} gives all images the one label {classes[0]!r}, so that mAP would be 1 for any codes: "
            "write several labels, or set dataset.labels: none"
        )
