"""Finds the images of a data set in a folder, and the official part of each. Opens no file.

What `nsh.core.image_files` leaves out is left out here too, and so are links that lead out of the root. Where a folder
of training images (`train`, `training`) stands beside one of test images (`test`, `testing`, or else `val`, `valid`,
`validation`), in any case, nothing else counts.

A published data set brings files that name its images; those are found here too.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nsh.core.image_files import NO_IMAGE, Exclude, is_image, walk
from nsh.errors import DataError

_TRAIN_FOLDERS = ("train", "training")
_TEST_FOLDERS = ("test", "testing", "val", "valid", "validation")


def scan(root: Path, *, exclude: Sequence[str] = ()) -> tuple[list[str], Counter[str]]:
    """The images under `root`, as sorted posix paths relative to it, and what was left out, by reason.

    Args:
        root: a folder.
        exclude: globs of what is left out besides, see `nsh.core.image_files.Exclude`.

    Raises:
        ConfigError: a glob is none.
        DataError: `root` is no folder.
    """
    found, _, ignored = scan_all(root, exclude=exclude)
    return _official_only(found, ignored), ignored


def scan_all(root: Path, *, exclude: Sequence[str] = ()) -> tuple[list[str], list[str], Counter[str]]:
    """The images under `root`, the files there that are no images, and what was left out, by reason.

    Both as sorted posix paths relative to `root`. No folder is taken for a part. Arguments and errors are those
    of `scan`.
    """
    if not root.is_dir():
        raise DataError(f"dataset.root: {root} is no folder: put your images there or name another folder")
    images: list[str] = []
    others: list[str] = []
    ignored: Counter[str] = Counter()
    home = os.path.realpath(root)
    for path in map(Path, walk(home, root=home, exclude=Exclude(exclude), left_out=ignored)):
        image = is_image(path.name)
        reason = _refusal(path, home) if image else NO_IMAGE
        if reason:
            ignored[reason] += 1
        if not reason or (not image and path.is_file()):
            (images if image else others).append(path.relative_to(home).as_posix())
    return sorted(images), sorted(others), ignored


def _refusal(path: Path, home: str) -> str:
    """Why a file with an image's name is left out; empty if it is not."""
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(home):
        return "links out of the root"
    if not path.is_file():  # a pipe would be read for ever, a broken link never
        return "names that are no regular file"
    return ""


def _official_only(paths: list[str], ignored: Counter[str]) -> list[str]:
    test = name_of_test_part(paths)
    if test is None:
        return paths
    kept = [path for path in paths if _top(path) in (*_TRAIN_FOLDERS, test)]
    if len(kept) < len(paths):
        ignored[f"images outside train and {test}"] = len(paths) - len(kept)
    return kept


def name_of_test_part(paths: list[str]) -> str | None:
    """The folder, in lower case, that holds the official test part, or None where there are no official parts."""
    tops = {_top(path) for path in paths if "/" in path}
    if tops.isdisjoint(_TRAIN_FOLDERS):
        return None
    return next((name for name in _TEST_FOLDERS if name in tops), None)


def part_of(path: str, test: str | None) -> str:
    """The official part of an image: "train", "test", or "" where `name_of_test_part` found none."""
    if test is None:
        return ""
    return "test" if _top(path) == test else "train"


def _top(path: str) -> str:
    return path.partition("/")[0].lower()
