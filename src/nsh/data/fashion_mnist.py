"""fashion-mnist: 70,000 product photos, 28 x 28 grey, ten classes, MIT licence (Xiao, Rasul and Vollgraf, 2017).

Whatever the source, the same bytes arrive: the digests are those of the decompressed IDX files. It knows nothing
of splits beyond the official train and test parts.
"""

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.data.debian import fetch_package
from nsh.data.imageset import ArrayImages
from nsh.errors import DataError, DownloadError
from nsh.system.fetch import download
from nsh.system.files import sha256_bytes
from nsh.system.folders import atomic_folder
from nsh.system.progress import Progress

NAME = "fashion-mnist"
CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
SHA256 = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
PACKAGE = "dataset-fashion-mnist"

_PREFIXES = {"train": "train", "test": "t10k"}
_LARGEST = 48 << 20  # bytes of the largest file, compressed or not
_IDX_UINT8 = 0x08


def fetch(*, raw: Path, root: Path, cache: Path, progress: Progress, say: Callable[[str], None], **_: Any) -> None:
    """Put the four IDX files into `raw`, from the first source that has them.

    The sources, in order: files lying in `root`, compressed or not; the address torchvision knows; the Debian
    package `dataset-fashion-mnist`.

    Args:
        raw: the folder to make.
        root: where files fetched by hand lie.
        cache: where a cut download is kept.
        progress: shows what arrives.
        say: gets one line for each source tried.

    Raises:
        DownloadError: a file fetched by hand is not the published one, or no source is left.
    """
    files = _find(root)
    if files is not None:
        content = _read(files)
        say(f"{NAME}: taken from the files in {root}")
    else:
        content = _fetch_from_elsewhere(cache=cache, progress=progress, say=say, root=root)
    with atomic_folder(raw) as folder:
        for name, data in content.items():
            (folder / name).write_bytes(data)


def open_images(*, raw: Path, **_: Any) -> ArrayImages:
    """Open what `fetch` wrote.

    Raises:
        DataError: the files are not there or damaged.
    """
    try:
        pixels = {part: _read_idx(raw / f"{prefix}-images-idx3-ubyte") for part, prefix in _PREFIXES.items()}
        labels = {part: _read_idx(raw / f"{prefix}-labels-idx1-ubyte") for part, prefix in _PREFIXES.items()}
    except FileNotFoundError as error:
        raise DataError(f"{NAME} is not in {raw}: run `dvc repro download`") from error
    return ArrayImages(NAME, pixels, labels, classes=CLASSES)


def _fetch_from_elsewhere(
    *, cache: Path, progress: Progress, say: Callable[[str], None], root: Path
) -> dict[str, bytes]:
    sources: dict[str, Callable[[], dict[str, Path]]] = {
        "the address torchvision knows": lambda: _from_torchvision(cache / NAME, progress=progress),
        f"the Debian package {PACKAGE}": lambda: _from_debian(cache / f"{NAME}-debian", progress=progress),
    }
    for source, files in sources.items():
        say(f"{NAME}: trying {source} (30 MB)")
        try:
            content = _read(files())
        except DownloadError as error:
            say(f"{NAME}: not from {source}: {error}")
        else:
            say(f"{NAME}: taken from {source}")
            return content
    raise DownloadError(
        f"{NAME} could not be fetched from any source (see above): fetch {', '.join(f'{name}.gz' for name in SHA256)} "
        f"on another machine, from torchvision's address or the Debian package {PACKAGE}, and put them into {root}"
    )


def _from_torchvision(folder: Path, *, progress: Progress) -> dict[str, Path]:
    from torchvision.datasets import FashionMNIST  # names and digests only: the download is our own

    return {
        name.removesuffix(".gz"): download(
            FashionMNIST.mirrors[0] + name, cache=folder, digest=f"md5:{md5}", limit=_LARGEST, progress=progress
        )
        for name, md5 in FashionMNIST.resources
    }


def _from_debian(folder: Path, *, progress: Progress) -> dict[str, Path]:
    files = _find_below(folder)
    if files is None:
        with atomic_folder(folder) as partial:
            fetch_package(PACKAGE, into=partial, cache=folder.parent, progress=progress)
        files = _find_below(folder)
    if files is None:
        raise DownloadError(f"the package holds other files than {', '.join(SHA256)}")
    return files


def _find_below(folder: Path) -> dict[str, Path] | None:
    return _find(folder / "usr/share/datasets/fashion-mnist")


def _find(folder: Path) -> dict[str, Path] | None:
    """The four files in `folder`, compressed or not, or None where one is missing."""
    found = {}
    for name in SHA256:
        for candidate in (folder / name, folder / f"{name}.gz"):
            if candidate.is_file():
                found[name] = candidate
                break
    return found if len(found) == len(SHA256) else None


def _read(files: dict[str, Path]) -> dict[str, bytes]:
    """The decompressed files, after a check of their published digests."""
    content = {name: _decompress(path) for name, path in files.items()}
    for name, data in content.items():
        if sha256_bytes(data) != SHA256[name]:
            raise DownloadError(
                f"{files[name]} is not the published file (decompressed SHA-256 {sha256_bytes(data)}, "
                f"allowed is {SHA256[name]}): delete it and run the same command again"
            )
    return content


def _decompress(path: Path) -> bytes:
    """At most `_LARGEST` bytes: a longer file fails its digest."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(_LARGEST)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DownloadError(
            f"{path} is a damaged gzip file ({error}): delete it, run the same command again"
        ) from error


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """An IDX file of uint8 (LeCun's format: two zeros, type, dimensions, sizes as big-endian int32, then values)."""
    data = path.read_bytes()
    dimensions = data[3] if len(data) > 4 else 0
    start = 4 + 4 * dimensions
    shape = np.frombuffer(data[4:start], dtype=">i4")
    if data[:3] != bytes([0, 0, _IDX_UINT8]) or len(data) != start + int(np.prod(shape, dtype=np.int64)):
        raise DataError(f"{path} is no whole IDX file of bytes: run `dvc repro -f download`")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(tuple(int(size) for size in shape))
