"""The images of a data set with labels and parts, joined from its files. Knows no file format.

Several files may name an image: the first decides its part, and all must agree on its labels.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nsh.data.imageset import Labels
from nsh.errors import DataError

Key = Callable[[str], str | None]
"""The common part of all names that archives and lists give an image, or None if a name has none."""


class Row(NamedTuple):
    """One image as listed in one file."""

    name: str  # a path or a file name, with either separator
    labels: Labels
    where: str  # file and line, for messages


class Listed(NamedTuple):
    """One image, joined from all files."""

    name: str  # the file name alone
    part: str  # as in `ImageSet.parts`
    labels: Labels


@dataclass(frozen=True, kw_only=True)
class Listing:
    """All images that were named, by key, and the files below the root that name them."""

    files: tuple[str, ...]
    images: dict[str, Listed]


def merge(parts: Iterable[tuple[str, Iterable[Row]]], *, key: Key) -> dict[str, Listed]:
    """Join the rows of each part; an image that stands in several belongs to the first.

    Raises:
        DataError: a name has no key, or two rows of one image differ in labels.
    """
    images: dict[str, Listed] = {}
    for part, rows in parts:
        for row in rows:
            name = row.name.replace("\\", "/").rpartition("/")[2].strip()
            identity = key(name)
            if identity is None:
                raise DataError(f"{row.where}: {name!r} is no image name of this data set: another set's list?")
            former = images.setdefault(identity, Listed(name, part, row.labels))
            if former.labels != row.labels:
                raise DataError(
                    f"{row.where}: {name!r} has other labels than where it was named before: the files are of "
                    "different splits or damaged, fetch them again"
                )
    return images


def read_lines(path: Path) -> list[str]:
    """The lines of a text file without white space at their ends; empty ones are left out.

    Raises:
        DataError: it is no text.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no UTF-8 text ({error.reason}): fetch it again") from error
    return [stripped for line in text.split("\n") if (stripped := line.strip())]
