"""CIFAR-10: 60,000 photos, 32 x 32 RGB, ten classes (Krizhevsky, 2009), official parts of 50,000 and 10,000.

Either the official python archive, or a tree of images with `train/` and `test/` in `dataset.root`.
"""

import importlib
import io
import pickle
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.data import folder, tree
from nsh.data.imageset import ArrayImages, ImageSet
from nsh.data.inventory import is_inventory
from nsh.errors import DataError, DownloadError
from nsh.system.fetch import download, matches
from nsh.system.folders import atomic_folder
from nsh.system.progress import Progress

NAME = "cifar10"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ARCHIVE = "cifar-10-python.tar.gz"
SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
BATCHES = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}

_LIMIT = 200 << 20
_SIDE, _CHANNELS = 32, 3


def fetch(
    *,
    raw: Path,
    root: Path,
    exclude: Sequence[str],
    cache: Path,
    progress: Progress,
    say: Callable[[str], None],
    **_: Any,
) -> None:
    """Fetch CIFAR-10 into the folder `raw`, completely or not at all.

    The sources, in order: an image tree with `train/` and `test/` in `root`; the official archive in `root`; the
    official archive from the address torchvision knows.

    Raises:
        DownloadError: the archive cannot be fetched, or is not the published one.
    """
    if root.is_dir() and tree.name_of_test_part(tree.scan(root, exclude=exclude)[0]):
        folder.fetch(raw=raw, root=root, exclude=exclude, progress=progress, say=say)
        return
    archive = root / ARCHIVE
    if archive.is_file():
        if not matches(archive, f"sha256:{SHA256}"):
            raise DownloadError(f"{archive} is not the published file: delete it and run the same command again")
        say(f"{NAME}: taken from {archive}")
    else:
        archive = _from_torchvision(cache / NAME, root=root, progress=progress)
        say(f"{NAME}: taken from the address torchvision knows")
    unpack(archive, into=raw)


def unpack(archive: Path, *, into: Path) -> None:
    """Write the arrays of a python archive whose digest was checked, as .npy files.

    Raises:
        DataError: it is not laid out as the published archive.
    """
    with atomic_folder(into) as partial, tarfile.open(archive) as tar:
        for part, batches in BATCHES.items():
            pixels, labels = zip(*(_read_batch(tar, name) for name in batches), strict=True)
            np.save(partial / f"{part}-images.npy", np.concatenate(pixels))
            np.save(partial / f"{part}-labels.npy", np.concatenate(labels))


def open_images(*, raw: Path, root: Path, labels: str) -> ImageSet:
    """Open the data set that `fetch` wrote: the arrays of the archive, or the tree in `root`.

    Raises:
        DataError: it is not there.
    """
    if is_inventory(raw):
        return folder.open_images(raw=raw, root=root, labels=labels)
    try:
        pixels = {part: np.load(raw / f"{part}-images.npy") for part in BATCHES}
        numbers = {part: np.load(raw / f"{part}-labels.npy") for part in BATCHES}
    except (OSError, ValueError) as error:
        raise DataError(f"{NAME} is not whole in {raw}: run `dvc repro -f download`") from error
    return ArrayImages(NAME, pixels, numbers, classes=CLASSES)


def _from_torchvision(cache: Path, *, root: Path, progress: Progress) -> Path:
    from torchvision.datasets import CIFAR10  # the address only: the download is our own

    try:
        return download(CIFAR10.url, cache=cache, digest=f"sha256:{SHA256}", limit=_LIMIT, progress=progress)
    except DownloadError as error:
        raise DownloadError(
            f"{error}; or put {ARCHIVE}, or the images as train/<class>/ and test/<class>/, into {root}"
        ) from error


def _read_batch(tar: tarfile.TarFile, name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Pixels uint8 [n, 32, 32, 3] and labels uint8 [n]; in the archive a row is the red, green and blue plane."""
    try:
        member = tar.extractfile(f"cifar-10-batches-py/{name}")
        if member is None:
            raise KeyError(name)
        batch = _ArraysOnly(io.BytesIO(member.read()), encoding="latin1").load()
        planes = np.asarray(batch["data"], dtype=np.uint8).reshape(-1, _CHANNELS, _SIDE, _SIDE)
        labels = np.asarray(batch["labels"], dtype=np.uint8)
    except (KeyError, ValueError, TypeError, pickle.UnpicklingError) as error:
        raise DataError(f"the archive has no readable batch {name} ({error}): fetch it again") from error
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


class _ArraysOnly(pickle.Unpickler):
    """Reads dictionaries, lists, strings, numbers and numpy arrays, and refuses to call anything else."""

    def find_class(self, module: str, name: str) -> Any:
        """The three names an array's pickle needs, whichever numpy wrote it."""
        if (module.removeprefix("numpy.").lstrip("_"), name) == ("core.multiarray", "_reconstruct"):
            return importlib.import_module("numpy._core.multiarray")._reconstruct
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")
