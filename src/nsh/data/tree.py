"""Which files below a folder are images, and which official part each belongs to. Reads names, never contents.

Hidden files and folders, files that are no images by their suffix, links that lead out of the root, linked folders
and names that are not UTF-8 are left out and counted. Where `train` stands beside `test` (or `val`, taken as the test
part), nothing else counts.

A published data set brings files that name its images; those are found here too.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nsh.core.errors import DataError

SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif"),
)
"""Image files by the end of their name, upper or lower case; whether they hold an image is found by the split."""

_TEST_FOLDERS = ("test", "val")
_NO_IMAGE = "files that are no images"


def scan(root: Path) -> tuple[list[str], Counter[str]]:
    """The images under `root`, as sorted posix paths relative to it, and what was left out, by reason.

    Raises:
        DataError: `root` is no folder.
    """
    found, _, ignored = scan_all(root)
    return _official_only(found, ignored), ignored


def scan_all(root: Path) -> tuple[list[str], list[str], Counter[str]]:
    """The images under `root`, the files there that are no images, and what was left out, by reason.

    Both as sorted posix paths relative to `root`. No folder's name counts for more than another's.

    Raises:
        DataError: `root` is no folder.
    """
    if not root.is_dir():
        raise DataError(f"dataset.root: {root} is no folder: put your images there or name another folder")
    images: list[str] = []
    others: list[str] = []
    ignored: Counter[str] = Counter()
    home = root.resolve()
    for path in _walk(home, ignored):
        reason = _refusal(path, home)
        if reason is None:
            images.append(path.relative_to(home).as_posix())
            continue
        ignored[reason] += 1
        if reason == _NO_IMAGE and path.is_file():
            others.append(path.relative_to(home).as_posix())
    return sorted(images), sorted(others), ignored


def _walk(root: Path, ignored: Counter[str]) -> Iterator[Path]:
    """Every file below `root`; linked folders are not entered, hidden ones neither."""

    def note(error: OSError) -> None:
        ignored["folders that cannot be read"] += 1

    for folder, subfolders, files in os.walk(root, onerror=note):
        here = Path(folder)
        for name in list(subfolders):
            if name.startswith(".") or (here / name).is_symlink():
                ignored["hidden folders" if name.startswith(".") else "linked folders"] += 1
                subfolders.remove(name)
        yield from (here / name for name in files)


def _refusal(path: Path, root: Path) -> str | None:
    """Why a file is left out, or None."""
    if path.name.startswith("."):
        return "hidden files"
    if path.suffix.lower() not in SUFFIXES:
        return _NO_IMAGE
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return "names that are not UTF-8"
    if path.is_symlink() and not path.resolve().is_relative_to(root):
        return "links out of the root"
    if not path.is_file():  # a pipe would be read for ever, a broken link never
        return "names that are no regular file"
    return None


def _official_only(paths: list[str], ignored: Counter[str]) -> list[str]:
    test = name_of_test_part(paths)
    if test is None:
        return paths
    kept = [path for path in paths if path.partition("/")[0] in ("train", test)]
    if len(kept) < len(paths):
        ignored[f"images outside train and {test}"] = len(paths) - len(kept)
    return kept


def name_of_test_part(paths: list[str]) -> str | None:
    """The folder that stands beside `train` as the official test part, or None where there is no such pair."""
    tops = {path.partition("/")[0] for path in paths if "/" in path}
    return next((name for name in _TEST_FOLDERS if {"train", name} <= tops), None)


def part_of(path: str, test: str | None) -> str:
    """The official part of an image: "train", "test", or "" where `name_of_test_part` found none."""
    if test is None:
        return ""
    return "train" if path.startswith("train/") else "test"


def describe(ignored: Counter[str]) -> str:
    """What was left out, in words."""
    return "left out: " + (", ".join(f"{count} {reason}" for reason, count in sorted(ignored.items())) or "nothing")
