"""Reads the split lists that the hashing community uses: images of query, gallery and train.

    test.txt  database.txt  train.txt                 a line is a path and a 0 or 1 for each class, as HashNet's
    test_img.txt  test_label_onehot.txt  ...          the same in two files, as DSDH_PyTorch's

A name may begin with that of the set (`nuswide_21_test.txt`) and end with the number of a shard (`test0.txt`). Queries
often stand in the database too, and training images sometimes do not: here a query is only a query, and the gallery is
the rest of both. Lists do not name their columns: they are the data set's classes in its own order, unless columns.txt
beside them has other names for them, a line each. It reads no image.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from nsh.core.image_files import is_image
from nsh.data.imageset import Labels
from nsh.data.listing import Key, Listing, Row, merge, read_lines
from nsh.errors import DataError

_LIST = re.compile(
    r"(?P<set>.*/|(?:.*/)?(?!labels_)[^/]*[_-]|)(?P<part>test|train|database)"
    r"(?P<kind>_img|_label_onehot|)(?P<shard>\d*)\.txt",
    re.IGNORECASE,
)
_COLUMNS = "columns.txt"
_WHOLE, _NAMES, _LABELS = "", "_img", "_label_onehot"

Lists = dict[tuple[str, str], dict[int, str]]
"""Of one split, by part and kind: the path of each shard."""


def read(root: Path, files: Sequence[str], *, classes: tuple[str, ...], key: Key) -> Listing | None:
    """Read the split lists among `files` (paths below `root`), or None where there are none.

    Raises:
        DataError: the lists are of several splits, not all there, cut, or contradict each other.
    """
    splits = _find(files)
    if not splits:
        return None
    if len(splits) > 1:
        firsts = ", ".join(sorted(next(iter(next(iter(lists.values())).values())) for lists in splits.values()))
        raise DataError(f"{root} has the lists of {len(splits)} splits (as {firsts}): keep those of one")
    (lists,) = splits.values()
    _check_complete(lists)
    order = [path for path in files if Path(path).name.lower() == _COLUMNS]
    columns = _read_columns(root, order, classes)
    has_train = ("train", _WHOLE) in lists or ("train", _NAMES) in lists
    parts = {"test": "test", "train": "train", "database": "gallery" if has_train else "train"}
    rows = [(part, _read_rows(root, lists, name, columns)) for name, part in parts.items()]
    paths = [path for shards in lists.values() for path in shards.values()]
    return Listing(files=tuple(sorted(paths + order)), images=merge(rows, key=key))


def _find(files: Sequence[str]) -> dict[tuple[str, bool], Lists]:
    """The lists of each split: they share a folder, a beginning of their names, and whether labels lie apart."""
    splits: dict[tuple[str, bool], Lists] = defaultdict(lambda: defaultdict(dict))
    for path in files:
        match = _LIST.fullmatch(path)
        if match is None:
            continue
        part, kind, shard = match["part"].lower(), match["kind"].lower(), int(match["shard"] or 0)
        shards = splits[match["set"], kind != _WHOLE][part, kind]
        if shard in shards:
            raise DataError(f"{path} and {shards[shard]} are the same list twice: keep one")
        shards[shard] = path
    return splits


def _check_complete(lists: Lists) -> None:
    paths = ", ".join(sorted(path for shards in lists.values() for path in shards.values()))
    parts = {part for part, _ in lists}
    lacking = [part for part in ("test", "database") if part not in parts]
    if lacking:
        raise DataError(f"found the lists {paths}, but none of {' and '.join(lacking)}: put them beside these")
    for (part, kind), shards in lists.items():
        if sorted(shards) != list(range(min(shards), min(shards) + len(shards))) or min(shards) > 1:
            raise DataError(f"the lists {', '.join(shards.values())} are not all of {part}: fetch the missing ones")
        if kind != _WHOLE and lists.get((part, _LABELS), {}).keys() != lists.get((part, _NAMES), {}).keys():
            raise DataError(f"found the lists {paths}: {part} needs both of {part}{_NAMES} and {part}{_LABELS}")


def _read_columns(root: Path, paths: list[str], classes: tuple[str, ...]) -> list[int]:
    """For each column the row of its class."""
    if not paths:
        return list(range(len(classes)))
    names = read_lines(root / paths[0])
    if len(paths) > 1 or sorted(names) != sorted(classes):
        strange = sorted(set(names) ^ set(classes)) or ["a name twice"]
        raise DataError(
            f"{', '.join(paths)}: one file is allowed, with the {len(classes)} classes, a line each, in the order of "
            f"the columns; too many or too few are {', '.join(strange)}"
        )
    return [classes.index(name) for name in names]


def _read_rows(root: Path, lists: Lists, part: str, columns: list[int]) -> Iterator[Row]:
    for _, path in sorted(lists.get((part, _WHOLE), {}).items()):
        yield from _read_whole(root, path, columns)
    for shard, path in sorted(lists.get((part, _NAMES), {}).items()):
        yield from _read_pair(root, path, lists[part, _LABELS][shard], columns)


def _read_whole(root: Path, path: str, columns: list[int]) -> Iterator[Row]:
    for number, line in enumerate(read_lines(root / path), start=1):
        name, *values = line.rsplit(maxsplit=len(columns))
        yield _row(name, values, columns, where=f"{path}, line {number}")


def _read_pair(root: Path, names_path: str, labels_path: str, columns: list[int]) -> Iterator[Row]:
    names, labels = read_lines(root / names_path), read_lines(root / labels_path)
    if len(names) != len(labels):
        raise DataError(
            f"{names_path} has {len(names)} lines and {labels_path} {len(labels)}: one is cut, fetch both again"
        )
    for number, (name, values) in enumerate(zip(names, labels, strict=True), start=1):
        yield _row(name, values.split(), columns, where=f"{names_path} and {labels_path}, line {number}")


def _row(name: str, values: list[str], columns: list[int], *, where: str) -> Row:
    if len(values) != len(columns) or not {"0", "1"}.issuperset(values) or not is_image(name):
        raise DataError(
            f"{where}: found {' '.join([name, *values])[:80]!r}, allowed is an image's path and {len(columns)} times "
            "0 or 1: the list is cut, or of another data set"
        )
    labels: Labels = tuple(sorted(columns[place] for place, value in enumerate(values) if value == "1"))
    return Row(name, labels, where)
