"""A tree of the user's own images. The images stay where they are; what is fetched is an inventory of them.

    root/cat/1.jpg                  labels from the first folder level, no official parts
    root/train/cat/1.jpg            an official split: `train` beside `test` (or `val`, taken as the test part)
    root/1.jpg                      no labels: dataset.labels must be none

What is left out, and counted, is written in `nsh.data.tree`. It does not decode images and knows no model.
"""

import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from PIL import Image

from nsh.core.errors import DataError, UnreadableImage
from nsh.core.files import read_json, sha256_bytes, sha256_file, write_json
from nsh.core.folders import atomic_folder
from nsh.core.preprocess import load_image
from nsh.core.progress import Progress, no_progress
from nsh.data import tree
from nsh.data.imageset import Labels

NAME = "folder"

_INVENTORY = "inventory.jsonl"
_HEADER = "inventory.json"


def fetch(*, raw: Path, root: Path, progress: Progress = no_progress, say: Callable[[str], None] = print) -> None:
    """Write the inventory of the images under `root` into the folder `raw`, whole or not at all.

    Raises:
        DataError: `root` is no folder, or has no image.
    """
    found, ignored = tree.scan(root)
    if not found:
        raise DataError(
            f"{root} has no image ({tree.describe(ignored)}): put images there or set dataset.root; "
            f"image files end in {' '.join(tree.SUFFIXES)}"
        )
    with atomic_folder(raw) as folder:
        with (folder / _INVENTORY).open("w", encoding="utf-8") as file:
            for path in progress(found, desc="hashing images", total=len(found)):
                file.write(json.dumps(_entry(root, path)) + "\n")
        write_json(folder / _HEADER, {"images": len(found), "ignored": dict(sorted(ignored.items()))})
    say(f"{raw.name}: {len(found)} images in {root}; {tree.describe(ignored)}")


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
        test = tree.name_of_test_part(self.ids)
        self.parts = [tree.part_of(path, test) for path in self.ids]
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
