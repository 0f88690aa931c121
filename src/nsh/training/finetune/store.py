"""Training images decoded once, as squares of bytes that any epoch can read. Knows no network and no augmentation.

A store is a folder with store.json (its side and number of images), and, for every 256 images, <number>.npy, uint8
[256, side, side, 3], and <number>.sizes.npy, int32 [256, 2], width and height of the originals. A shard is there whole
or not at all: what a cut run has made, the next one need not.

Images are squashed to side = ceil(8 / 7 S), as 256 is to 224, the usual pair. That is 1.3 times the memory of S, and
enough for a view of nearly the whole image to be shrunk as from the original; one of a small part of a large original
holds less detail. Where no image is that long, the longest one's side is enough: CIFAR-10's 32 pixels stay as they are.
"""

import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.preprocess import to_input
from nsh.system.code import code_digest
from nsh.system.files import read_json, sha256_bytes, write_bytes, write_json
from nsh.system.progress import Progress
from nsh.system.threads import map_in_threads
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.order import Rows

SHARD = 256
"""Images in a shard; the last one may have fewer."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """A finished store.

    Attributes:
        shards: uint8 [256, side, side, 3] each, mapped from the disk.
        sizes: int32 [n, 2], width and height of every original, in pixels.
        side: of a square, in pixels.
    """

    shards: Sequence[NDArray[np.uint8]]
    sizes: NDArray[np.int32]
    side: int

    @property
    def bytes(self) -> int:
        """Of all squares together."""
        return len(self.sizes) * self.side**2 * 3

    def read(self, rows: Rows, into: NDArray[np.uint8]) -> None:
        """Copy the squares in `rows` [n] into an array [n, side, side, 3]."""
        for place, row in enumerate(rows.tolist()):
            into[place] = self.shards[row // SHARD][row % SHARD]


def name_store(images: ImageFiles) -> str:
    """A folder's name that no other images, size, filter or way of reading share."""
    facts = [images.digest, list(images.ids), images.size, images.resample, code_digest([__name__])]
    return sha256_bytes(repr(facts).encode())[:16]


def begin_store(images: ImageFiles, folder: Path) -> None:
    """Settle the side of the squares, unless it is settled.

    Raises:
        DataError: an image cannot be read.
    """
    header = folder / "store.json"
    if not header.exists():
        write_json(header, {"images": len(images.ids), "side": _choose_side(images)})


def fill_store(images: ImageFiles, folder: Path, *, rank: int, ranks: int, progress: Progress) -> None:
    """Make this rank's part of the shards that are not there yet.

    Raises:
        DataError: an image cannot be read.
    """
    count, side = len(images.ids), read_json(folder / "store.json")["side"]
    numbers = [n for n in range(-(-count // SHARD))[rank::ranks] if not _shard_path(folder, n).exists()]

    def make(row: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
        image = images.read(row)
        return to_input(image, size=side, resample=images.resample), image.size

    if not numbers:
        return
    parts = [range(number * SHARD, min(count, (number + 1) * SHARD)) for number in numbers]
    with closing(map_in_threads(make, chain(*parts), threads=images.workers)) as made:
        for number, rows in progress(zip(numbers, parts, strict=True), desc="images", total=len(numbers)):
            pixels, sizes = zip(*islice(made, len(rows)), strict=True)
            _write(_sizes_path(folder, number), np.array(sizes, np.int32))
            _write(_shard_path(folder, number), np.stack(pixels))


def open_store(folder: Path) -> Store:
    """Map a store whose shards are all there."""
    header = read_json(folder / "store.json")
    numbers = range(-(-header["images"] // SHARD))
    return Store(
        shards=[np.load(_shard_path(folder, number), mmap_mode="r") for number in numbers],
        sizes=np.concatenate([np.load(_sizes_path(folder, number)) for number in numbers]),
        side=header["side"],
    )


def _choose_side(images: ImageFiles) -> int:
    enough, longest = -(-8 * images.size // 7), 0
    rows = range(len(images.ids))
    with closing(map_in_threads(lambda row: max(images.read(row).size), rows, threads=images.workers)) as sides:
        for side in sides:
            longest = max(longest, side)
            if longest >= enough:  # mostly the first one is
                return enough
    return longest


def _shard_path(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.npy"


def _sizes_path(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.sizes.npy"


def _write(path: Path, array: NDArray[Any]) -> None:
    """By way of memory: NumPy's own `save` cannot say that the disk is full."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    write_bytes(path, buffer.getbuffer())
