"""What a publisher's files say of a data set: which images, with which labels, in which part. Knows no file format.

Several files may name an image: the first decides its part, and all must agree on its labels.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nsh.data.imageset import Labels
from nsh.errors import DataError

Key = Callable[[str], str | None]
"""What is the same in every name that archives and lists give an image, or None where a name has no such thing."""


class Row(NamedTuple):
    """One image as one file names it."""

    name: str  # a path or a file name, with either separator
    labels: Labels
    where: str  # file and line, for messages


class Listed(NamedTuple):
    """One image as all files together name it."""

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
