"""Published multi-label data sets: files list images and labels; some images may be missing.

Images and files lie under `dataset.root`, in any folders; what is fetched is an inventory. An image is found by its key
(see `nsh.data.listing`), wherever it lies. Images without any label are left out; those that are named and not there
are entries that cannot be read, which the split counts and limits (`split.max_bad_share`). Neither how many images the
publisher has, nor how many are here, is taken for granted: both are said and kept in the header.

The order of images is that of their keys, so that one seed draws one split whatever the folders.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsh.core.image_files import describe
from nsh.core.names import listed
from nsh.data import inventory, split_lists, tree
from nsh.data.listing import Key, Listed, Listing
from nsh.errors import DataError
from nsh.system.files import sha256_file
from nsh.system.progress import Progress

_ARCHIVES = (".zip", ".gz", ".tgz", ".tar", ".rar", ".7z", ".part", ".partial", ".crdownload", ".aria2")


class ListedImages(inventory.InventoryImages):
    """The images of an inventory whose entries carry their part and labels."""

    def __init__(self, name: str, entries: list[inventory.Entry], *, root: Path, classes: tuple[str, ...]) -> None:
        """Take the inventory's entries and where its images lie; without classes nothing is labelled."""
        super().__init__(name, entries, root=root)
        self.parts = [entry["part"] for entry in entries]
        if classes:
            self.classes = classes
            self.labels = [tuple(entry["labels"]) for entry in entries]


@dataclass(frozen=True, kw_only=True)
class ListedSet:
    """The properties of one published data set.

    Attributes:
        classes: in the order of the split lists' columns.
        published: how many images have a label, as published.
        key: of an image's name.
        read_official: the publisher's own files among those below a root, or None where they are not there.
        wanted: which files are wanted, and where they come from.
    """

    classes: tuple[str, ...]
    published: int
    key: Key
    read_official: Callable[[Path, Sequence[str]], Listing | None]
    wanted: str

    def fetch(
        self,
        *,
        raw: Path,
        root: Path,
        exclude: Sequence[str],
        progress: Progress,
        say: Callable[[str], None],
        **_: Any,
    ) -> None:
        """Write the inventory of the data set's images under `root` into the folder `raw`, whole or not at all.

        Raises:
            ConfigError: a glob of `exclude` is none.
            DataError: the files that name images are not there or damaged, or there is none of the images.
        """
        found, others, ignored = tree.scan_all(root, exclude=exclude)
        listing = _read_listing(self, root, others)
        labelled = {key: image for key, image in sorted(listing.images.items()) if image.labels}
        places = _find_places(found, labelled, key=self.key, ignored=ignored)
        if not places:
            raise DataError(
                f"{root} has none of the {len(labelled)} labelled images that {_shorten(listing.files)} name"
                f"{_hint(others)}; wanted are {self.wanted}"
            )
        entries = (
            inventory.describe_file(root, places.get(key, image.name)) | {"part": image.part, "labels": image.labels}
            for key, image in progress(labelled.items(), desc="hashing images", total=len(labelled))
        )
        header = {
            "classes": self.classes,
            "files": {path: sha256_file(root / path) for path in listing.files},
            "published": self.published,
            "without_labels": len(listing.images) - len(labelled),
            "missing": len(labelled) - len(places),
            "ignored": dict(sorted(ignored.items())),
        }
        inventory.write(raw, entries, header)
        say(
            f"{raw.name}: {_shorten(listing.files)} name {len(labelled)} images with a label, of {self.published} "
            f"published; {header['without_labels']} without one are left out"
        )
        missing = [image.name for key, image in labelled.items() if key not in places]
        named = f" ({listed(missing)})" if missing else ""
        say(f"{raw.name}: {len(missing)} of them are missing in {root}{named}; {describe(ignored)}")

    def open_images(self, *, raw: Path, root: Path, labels: str) -> ListedImages:
        """Open the inventory in `raw`, of images under `root`, labelled by the data set's classes, or by "none".

        Raises:
            DataError: there is no inventory.
        """
        entries, header = inventory.read(raw)
        classes: Any = () if labels == "none" else header["classes"]
        return ListedImages(raw.name, entries, root=root, classes=tuple(classes))


def _read_listing(data_set: ListedSet, root: Path, files: Sequence[str]) -> Listing:
    """The community's lists, if there are any, else the publisher's files: a user who adds lists wants their split."""
    lists = split_lists.read(root, files, classes=data_set.classes, key=data_set.key)
    listing = lists or data_set.read_official(root, files)
    if listing is None:
        raise DataError(f"{root} has no files that name images and labels{_hint(files)}; wanted are {data_set.wanted}")
    return listing


def _find_places(
    found: Sequence[str], labelled: dict[str, Listed], *, key: Key, ignored: Counter[str]
) -> dict[str, str]:
    """For each key the path of its image below the root: the first, where several files are one image."""
    places: dict[str, str] = {}
    for path in found:
        identity = key(path.rpartition("/")[2])
        if identity is None or identity not in labelled:
            ignored["images that are not named, or have no label"] += 1
        elif identity in places:
            ignored["further files of an image"] += 1
        else:
            places[identity] = path
    return places


def _shorten(files: Sequence[str]) -> str:
    return ", ".join(files) if len(files) <= 3 else f"{files[0]} and {len(files) - 1} more files"


def _hint(files: Sequence[str]) -> str:
    archives = [path for path in files if path.lower().endswith(_ARCHIVES)]
    return f" (unpack {_shorten(archives)}; if that fails, fetch it again)" if archives else ""
