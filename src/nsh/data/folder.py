"""A tree of the user's own images. The images stay where they are; only an inventory of them is written.

    root/cat/1.jpg                  labels from the first folder level, no official parts
    root/train/cat/1.jpg            an official split: `train` beside `test` (or else `val`), in any case
    root/1.jpg                      no labels: dataset.labels must be none

What is left out, and counted, is written in `nsh.data.tree`. It does not decode images and knows no model.
"""

from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from unicodedata import normalize

from nsh.core.image_files import SUFFIXES, describe
from nsh.data import inventory, tree
from nsh.errors import DataError
from nsh.system.progress import Progress, no_progress


def fetch(
    *,
    raw: Path,
    root: Path,
    exclude: Sequence[str] = (),
    progress: Progress = no_progress,
    say: Callable[[str], None] = print,
    **_: Any,
) -> None:
    """Write the inventory of the images under `root` into the folder `raw`, whole or not at all.

    Raises:
        ConfigError: a glob of `exclude` is none.
        DataError: `root` is no folder, or has no image.
    """
    found, ignored = tree.scan(root, exclude=exclude)
    if not found:
        raise DataError(
            f"{root} has no image ({describe(ignored)}): put images there or set dataset.root; "
            f"image files end in {' '.join(SUFFIXES)}"
        )
    entries = (inventory.describe_file(root, path) for path in progress(found, desc="hashing images", total=len(found)))
    inventory.write(raw, entries, {"ignored": dict(sorted(ignored.items()))})
    say(f"{raw.name}: {len(found)} images in {root}; {describe(ignored)}")


class FolderImages(inventory.InventoryImages):
    """The images of a tree: parts and labels are in their paths."""

    def __init__(self, name: str, entries: list[inventory.Entry], *, root: Path, labels: str) -> None:
        """Take the inventory's entries and where its images lie.

        Raises:
            DataError: labels are asked for and an image lies outside any class folder.
        """
        super().__init__(name, entries, root=root)
        test = tree.name_of_test_part(self.ids)
        self.parts = [tree.part_of(path, test) for path in self.ids]
        if labels == "folder":
            below = [
                PurePosixPath(path).parts[1 if part else 0 :] for path, part in zip(self.ids, self.parts, strict=True)
            ]
            _check_labelled(self.ids, below, root)
            names = [normalize("NFC", parts[0]) for parts in below]  # train/ and test/ may come from two systems
            self.classes = tuple(sorted(set(names)))
            rows = {label: row for row, label in enumerate(self.classes)}
            self.labels = [(rows[name],) for name in names]


def open_images(*, raw: Path, root: Path, labels: str) -> FolderImages:
    """Open the inventory in `raw`, of images under `root`, labelled by "folder" or "none".

    Raises:
        DataError: there is no inventory, or labels are asked for and some image has none.
    """
    entries, _ = inventory.read(raw)
    return FolderImages(raw.name, entries, root=root, labels=labels)


def _check_labelled(paths: list[str], below: list[tuple[str, ...]], root: Path) -> None:
    loose = [path for path, parts in zip(paths, below, strict=True) if len(parts) < 2]
    if loose:
        raise DataError(
            f"{len(loose)} of {len(paths)} images under {root} lie in no class folder (the first is {loose[0]!r}): "
            "move each into a folder named as its class, or set dataset.labels: none"
        )
