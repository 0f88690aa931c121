"""A tree of the user's own images. The images stay where they are; only an inventory of them is written.

    root/cat/1.jpg                  labels from the first folder level, no official parts
    root/train/cat/1.jpg            an official split: `train` beside `test` (or else `val`), in any case
    root/1.jpg                      no labels: dataset.labels must be none
    root/labels.csv                 labels from a file, see `nsh.data.label_file`: dataset.labels must be labels.csv

What is left out, and counted, is written in `nsh.data.tree`. It does not decode images and knows no model.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from unicodedata import normalize

from nsh.core.image_files import SUFFIXES, describe
from nsh.core.tables import is_table
from nsh.data import inventory, tree
from nsh.data.label_file import FileLabels, read_labels
from nsh.errors import DataError
from nsh.system.files import sha256_file
from nsh.system.progress import Progress, no_progress


def fetch(
    *,
    raw: Path,
    root: Path,
    exclude: Sequence[str] = (),
    labels: str = "none",
    progress: Progress = no_progress,
    say: Callable[[str], None] = print,
    **_: Any,
) -> None:
    """Write the inventory of the images under `root` into the folder `raw`, whole or not at all.

    With labels from a file, the entries of images that have one carry their classes' rows, and the header the classes.

    Raises:
        ConfigError: a glob of `exclude` is none.
        DataError: `root` is no folder or has no image, or the file of labels is not usable.
    """
    found, ignored = find_images(root, exclude=exclude)
    table = read_labels(root, labels, found) if is_table(labels) else None
    entries = (_describe(root, path, table) for path in progress(found, desc="hashing images", total=len(found)))
    header: dict[str, Any] = {"ignored": dict(sorted(ignored.items()))}
    if table:
        header["labels"] = {"file": Path(labels).name, "sha256": sha256_file(root / labels), "classes": table.classes}
    inventory.write(raw, entries, header)
    say(f"{raw.name}: {len(found)} images in {root}; {describe(ignored)}")
    if table:
        say(f"{labels}: {table.said}; images without one are left out")


def find_images(root: Path, *, exclude: Sequence[str]) -> tuple[list[str], Counter[str]]:
    """`nsh.data.tree.scan`, of a folder that must have an image.

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
    return found, ignored


class FolderImages(inventory.InventoryImages):
    """The images of a tree: parts are in their paths, labels in their paths or in their entries."""

    def __init__(
        self, name: str, entries: list[inventory.Entry], *, root: Path, labels: str, classes: Sequence[str] = ()
    ) -> None:
        """Take the inventory's entries and where its images lie; with labels from a file, their classes too.

        Raises:
            DataError: labels are asked for and an image lies outside any class folder.
        """
        super().__init__(name, entries, root=root)
        test = tree.name_of_test_part(self.ids)
        self.parts = [tree.part_of(path, test) for path in self.ids]
        if labels == "folder":
            self._label_by_folder(root)
        elif labels != "none":
            self.classes = tuple(classes)
            self.labels = [tuple(entry["labels"]) for entry in entries]

    def _label_by_folder(self, root: Path) -> None:
        below = [PurePosixPath(path).parts[1 if part else 0 :] for path, part in zip(self.ids, self.parts, strict=True)]
        _check_labelled(self.ids, below, root)
        names = [normalize("NFC", parts[0]) for parts in below]  # train/ and test/ may come from two systems
        self.classes = tuple(sorted(set(names)))
        rows = {label: row for row, label in enumerate(self.classes)}
        self.labels = [(rows[name],) for name in names]


def open_images(*, raw: Path, root: Path, labels: str) -> FolderImages:
    """Open the inventory in `raw`, of images under `root`, labelled by "folder", "none", or the name of a file.

    With a file, images without a label are left out.

    Raises:
        DataError: there is no inventory, it has no labels from this file, or some image lies in no class folder.
    """
    entries, header = inventory.read(raw)
    if not is_table(labels):
        return FolderImages(raw.name, entries, root=root, labels=labels)
    found = header.get("labels", {})
    if found.get("file") != Path(labels).name:
        raise DataError(f"{raw} has no labels from {labels}: run `dvc repro download`")
    labelled = [entry for entry in entries if "labels" in entry]
    return FolderImages(raw.name, labelled, root=root, labels=labels, classes=found["classes"])


def _describe(root: Path, path: str, table: FileLabels | None) -> inventory.Entry:
    entry = inventory.describe_file(root, path)
    return entry | {"labels": table.images[path]} if table and path in table.images else entry


def _check_labelled(paths: list[str], below: list[tuple[str, ...]], root: Path) -> None:
    loose = [path for path, parts in zip(paths, below, strict=True) if len(parts) < 2]
    if loose:
        raise DataError(
            f"{len(loose)} of {len(paths)} images under {root} lie in no class folder (the first is {loose[0]!r}): "
            "move each into a folder named as its class, or set dataset.labels: none, or the name of a file of labels"
        )
