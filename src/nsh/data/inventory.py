"""Images that stay in the user's folder: an inventory of them is written, and they are read in place.

inventory.jsonl    an image a line: path (posix, below the root), bytes, sha256, and what a data set notes besides
inventory.json     the header: images, and what a data set notes besides

A file that could not be read has null for bytes and sha256: the split counts it as unreadable. This module decodes no
image while an inventory is written, and knows neither labels nor splits.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from nsh.core.preprocess import load_image
from nsh.core.sides import read_sides
from nsh.data.imageset import Labels
from nsh.errors import DataError, UnreadableImage
from nsh.system.files import read_json, sha256_bytes, sha256_file, write_json
from nsh.system.folders import atomic_folder

_ENTRIES = "inventory.jsonl"
_HEADER = "inventory.json"

Entry = dict[str, Any]
"""A line of an inventory."""


def describe_file(root: Path, path: str) -> Entry:
    """The entry of the file at `path` below `root`; hashing reads it whole."""
    file = root / path
    try:
        return {"path": path, "bytes": file.stat().st_size, "sha256": sha256_file(file)}
    except OSError:  # the split counts it as unreadable, with the reason
        return {"path": path, "bytes": None, "sha256": None}


def write(raw: Path, entries: Iterable[Entry], header: Mapping[str, Any]) -> None:
    """Write an inventory into the folder `raw`, whole or not at all; the header gets the number of entries first."""
    with atomic_folder(raw) as folder:
        count = 0
        with (folder / _ENTRIES).open("w", encoding="utf-8") as file:
            for entry in entries:
                file.write(json.dumps(entry) + "\n")
                count += 1
        write_json(folder / _HEADER, {"images": count, **header})


def is_inventory(raw: Path) -> bool:
    """Whether `raw` was written by this module."""
    return (raw / _ENTRIES).is_file()


def read(raw: Path) -> tuple[list[Entry], dict[str, Any]]:
    """The entries and the header of the inventory in `raw`.

    Raises:
        DataError: there is none, or not all of it.
    """
    if not is_inventory(raw):
        raise DataError(f"{raw} has no inventory of images: run `dvc repro download`")
    entries = [json.loads(line) for line in (raw / _ENTRIES).read_text(encoding="utf-8").splitlines()]
    header: dict[str, Any] = read_json(raw / _HEADER)
    if len(entries) != header["images"]:
        raise DataError(f"{raw / _ENTRIES} is not whole: run `dvc repro -f download`")
    return entries, header


class InventoryImages:
    """The images of an inventory, read from `root`; their content is the file's bytes.

    Parts, classes and labels are set by the data set that knows them.
    """

    def __init__(self, name: str, entries: list[Entry], *, root: Path) -> None:
        """Take the inventory's entries and where its images lie."""
        self.name = name
        self.ids = [str(entry["path"]) for entry in entries]
        self.parts = [""] * len(entries)
        self.classes: tuple[str, ...] | None = None
        self.labels: list[Labels] | None = None
        self._sha256 = {entry["path"]: entry["sha256"] for entry in entries}
        self._root = root.resolve()

    def content(self, image_id: str) -> bytes:
        """The file's bytes, after proof that they are those of the inventory.

        Raises:
            UnreadableImage: it could not be read when the inventory was made either.
            DataError: the file is gone, or has changed since.
        """
        if image_id not in self._sha256:
            raise DataError(f"{image_id!r} is not in the inventory of {self._root.name}: run `dvc repro` again")
        path = self._root / image_id
        try:
            if not Path(os.path.realpath(path)).is_relative_to(self._root):
                raise DataError(f"{image_id!r} leads out of the folder: run `dvc repro` again")
            content = path.read_bytes()
        except OSError as error:
            if self._sha256[image_id] is None:
                raise UnreadableImage(f"cannot be read: {error.strerror}") from error
            raise DataError(
                f"{image_id!r} cannot be read any more ({error.strerror}): run `dvc repro` again"
            ) from error
        if sha256_bytes(content) != self._sha256[image_id]:
            raise DataError(f"{image_id!r} has changed since the download stage: run `dvc repro` again")
        return content

    def image(self, image_id: str, *, size: int) -> Image.Image:
        """The image, decoded as an encoder of inputs of `size` x `size` pixels decodes it.

        Raises:
            UnreadableImage: it cannot be decoded; the reason alone.
            DataError: as `content`.
        """
        return load_image(self.content(image_id), size=size)

    def inspect(self, image_id: str) -> str:
        """SHA-256 of the file's bytes, after proof that they decode.

        Raises:
            UnreadableImage: they do not decode; the reason alone.
            DataError: as `content`.
        """
        self.image(image_id, size=1)  # the smallest scale reads the whole file too
        return str(self._sha256[image_id])

    def sides(self, image_id: str) -> tuple[int, int]:
        """The shorter and the longer side of the image in pixels.

        Raises:
            UnreadableImage: the file is no image; the reason alone.
            DataError: as `content`.
        """
        return read_sides(self.content(image_id))
