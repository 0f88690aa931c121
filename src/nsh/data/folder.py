"""A tree of the user's own images. The images stay where they are; what is fetched is an inventory of them.

    root/cat/1.jpg                  labels from the first folder level, no official parts
    root/train/cat/1.jpg            an official split: `train` beside `test` (or `val`, taken as the test part)
    root/1.jpg                      no labels: dataset.labels must be none

Hidden files and folders, files that are no images by their suffix, links that lead out of the root, linked folders
and names that are not UTF-8 are left out and counted. Beside `train` and `test` nothing else counts.
It does not decode images and knows no model.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from PIL import Image

from nsh.core.errors import DataError, UnreadableImage
from nsh.core.files import read_json, sha256_bytes, sha256_file, write_json
from nsh.core.folders import atomic_folder
from nsh.core.preprocess import load_image
from nsh.core.progress import Progress, no_progress
from nsh.data.imageset import Labels

NAME = "folder"
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif"),
)
"""Image files by the end of their name, upper or lower case; whether they hold an image is found by the split."""

_INVENTORY = "inventory.jsonl"
_HEADER = "inventory.json"
_TEST_FOLDERS = ("test", "val")


def fetch(*, raw: Path, root: Path, progress: Progress = no_progress, say: Callable[[str], None] = print) -> None:
    """Write the inventory of the images under `root` into the folder `raw`, whole or not at all.

    Raises:
        DataError: `root` is no folder, or has no image.
    """
    found, ignored = scan(root)
    if not found:
        raise DataError(
            f"{root} has no image ({_describe(ignored)}): put images there or set dataset.root; "
            f"image files end in {' '.join(SUFFIXES)}"
        )
    with atomic_folder(raw) as folder:
        with (folder / _INVENTORY).open("w", encoding="utf-8") as file:
            for path in progress(found, desc="hashing images", total=len(found)):
                file.write(json.dumps(_entry(root, path)) + "\n")
        write_json(folder / _HEADER, {"images": len(found), "ignored": dict(sorted(ignored.items()))})
    say(f"{raw.name}: {len(found)} images in {root}; {_describe(ignored)}")


def scan(root: Path) -> tuple[list[str], Counter[str]]:
    """The images under `root`, as sorted posix paths relative to it, and what was left out, by reason.

    Raises:
        DataError: `root` is no folder.
    """
    if not root.is_dir():
        raise DataError(f"dataset.root: {root} is no folder: put your images there or name another folder")
    found: list[str] = []
    ignored: Counter[str] = Counter()
    home = root.resolve()
    for path in _walk(home, ignored):
        reason = _refusal(path, home)
        if reason is None:
            found.append(path.relative_to(home).as_posix())
        else:
            ignored[reason] += 1
    found = _official_only(found, ignored)
    return sorted(found), ignored


def has_official_parts(paths: list[str]) -> bool:
    """Whether images lie below `train/` and below `test/` or `val/`."""
    return _test_folder(paths) is not None


def is_inventory(raw: Path) -> bool:
    """Whether `raw` was written by this module's `fetch`."""
    return (raw / _INVENTORY).is_file()


class FolderImages:
    """The images of an inventory, read from `root`; their content is the file's bytes."""

    def __init__(self, name: str, entries: list[dict[str, Any]], *, root: Path, labels: str) -> None:
        """Take the inventory's entries and where its images lie.

        Raises:
            DataError: labels are asked for and an image lies outside any class folder.
        """
        self.name = name
        self.ids = [str(entry["path"]) for entry in entries]
        self._sha256 = {entry["path"]: entry["sha256"] for entry in entries}
        self._root = root.resolve()
        test_folder = _test_folder(self.ids)
        self.parts = [_part(path, test_folder) for path in self.ids]
        self.classes: tuple[str, ...] | None = None
        self.labels: list[Labels] | None = None
        if labels == "folder":
            below = [
                PurePosixPath(path).parts[1 if part else 0 :] for path, part in zip(self.ids, self.parts, strict=True)
            ]
            _check_labelled(self.ids, below, root)
            self.classes = tuple(sorted({parts[0] for parts in below}))
            rows = {label: row for row, label in enumerate(self.classes)}
            self.labels = [(rows[parts[0]],) for parts in below]

    def content(self, image_id: str) -> bytes:
        """The file's bytes.

        Raises:
            UnreadableImage: it could not be read when the inventory was made either.
            DataError: it is not the file of the inventory any more.
        """
        if image_id not in self._sha256:
            raise DataError(f"{image_id!r} is not in the inventory of {self._root.name}: run `dvc repro` again")
        path = self._root / image_id
        try:
            if not path.resolve().is_relative_to(self._root):
                raise DataError(f"{image_id!r} leads out of the folder: run `dvc repro` again")
            content = path.read_bytes()
        except OSError as error:
            if self._sha256[image_id] is None:
                raise UnreadableImage(f"cannot be read: {error.strerror}") from error
            raise DataError(
                f"{image_id!r} cannot be read any more ({error.strerror}): run `dvc repro` again"
            ) from error
        return content

    def image(self, image_id: str) -> Image.Image:
        """The decoded image.

        Raises:
            UnreadableImage: it cannot be decoded; the reason alone.
            DataError: the file is gone.
        """
        return load_image(self.content(image_id))

    def inspect(self, image_id: str) -> str:
        """SHA-256 of the file's bytes, after proof that they decode and are those of the inventory.

        Raises:
            UnreadableImage: they do not decode; the reason alone.
            DataError: the file has changed since the inventory was made.
        """
        content = self.content(image_id)
        digest = sha256_bytes(content)
        if digest != self._sha256[image_id]:
            raise DataError(f"{image_id!r} has changed since the download stage: run `dvc repro` again")
        load_image(content)
        return digest


def open_images(name: str, *, raw: Path, root: Path, labels: str) -> FolderImages:
    """Open the inventory in `raw`, of images under `root`, labelled by "folder" or "none".

    Raises:
        DataError: there is no inventory, or labels are asked for and some image has none.
    """
    if not is_inventory(raw):
        raise DataError(f"{raw} has no inventory of images: run `dvc repro download`")
    entries = [json.loads(line) for line in (raw / _INVENTORY).read_text(encoding="utf-8").splitlines()]
    if len(entries) != read_json(raw / _HEADER)["images"]:
        raise DataError(f"{raw / _INVENTORY} is not whole: run `dvc repro -f download`")
    return FolderImages(name, entries, root=root, labels=labels)


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
        return "files that are no images"
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
    test_folder = _test_folder(paths)
    if test_folder is None:
        return paths
    kept = [path for path in paths if path.partition("/")[0] in ("train", test_folder)]
    if len(kept) < len(paths):
        ignored[f"images outside train and {test_folder}"] = len(paths) - len(kept)
    return kept


def _test_folder(paths: list[str]) -> str | None:
    tops = {path.partition("/")[0] for path in paths if "/" in path}
    return next((name for name in _TEST_FOLDERS if {"train", name} <= tops), None)


def _part(path: str, test_folder: str | None) -> str:
    if test_folder is None:
        return ""
    return "train" if path.startswith("train/") else "test"


def _check_labelled(paths: list[str], below: list[tuple[str, ...]], root: Path) -> None:
    loose = [path for path, parts in zip(paths, below, strict=True) if len(parts) < 2]
    if loose:
        raise DataError(
            f"{len(loose)} of {len(paths)} images under {root} lie in no class folder (the first is {loose[0]!r}): "
            "move each into a folder named as its class, or set dataset.labels: none"
        )


def _entry(root: Path, path: str) -> dict[str, Any]:
    file = root / path
    try:
        return {"path": path, "bytes": file.stat().st_size, "sha256": sha256_file(file)}
    except OSError:  # the split counts it as unreadable, with the reason
        return {"path": path, "bytes": None, "sha256": None}


def _describe(ignored: Counter[str]) -> str:
    return "left out: " + (", ".join(f"{count} {reason}" for reason, count in sorted(ignored.items())) or "nothing")
