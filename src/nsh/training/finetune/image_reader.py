"""Reads decoded training images to the network's device: all at once, or a batch at a time.

Knows no augmentation.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nsh.system.threads import map_in_threads
from nsh.training.finetune.image_cache import SHARD, ImageCache
from nsh.training.finetune.order import Rows

SHARE = 1 / 4
"""Share of a device's free memory that decoded images may take; network, optimiser and activations need the rest."""

_AHEAD = 3  # batches in work: the requested one and the next two


class ImageReader(Protocol):
    """Gives decoded images by their rows."""

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """The images in the rows of each batch, uint8 [n, side, side, 3], on the device; a row may occur twice."""
        ...


def open_reader(cache: ImageCache, device: torch.device, *, workers: int) -> ImageReader:
    """A `DeviceReader` if all images fit on a GPU, else a `DiskReader`: on a CPU the page cache is enough."""
    if device.type == "cuda" and cache.bytes <= SHARE * torch.cuda.mem_get_info(device)[0]:
        return DeviceReader(cache, device)
    return DiskReader(cache, device, workers=workers)


class DeviceReader:
    """An `ImageReader` that holds all images in the device's memory."""

    def __init__(self, cache: ImageCache, device: torch.device) -> None:
        shape = (len(cache.sizes), cache.side, cache.side, 3)
        self.images = torch.empty(shape, dtype=torch.uint8, device=device)
        for number, shard in enumerate(cache.shards):
            self.images[number * SHARD : number * SHARD + len(shard)] = torch.from_numpy(np.array(shard))

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """See `ImageReader`."""
        return (self.images[send(rows, self.images.device)] for rows in batches)


class DiskReader:
    """An `ImageReader` that reads from disk with `workers` threads, a few batches ahead."""

    def __init__(self, cache: ImageCache, device: torch.device, *, workers: int) -> None:
        self.cache, self.device, self.workers = cache, device, workers

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """See `ImageReader`."""
        for decoded, places in map_in_threads(self._read, batches, threads=self.workers, ahead=_AHEAD):
            yield decoded.to(self.device, non_blocking=True)[send(places, self.device)]

    def _read(self, rows: Rows) -> tuple[Tensor, Rows]:
        """The distinct images of a batch, and the place of each row among them."""
        different, places = np.unique(rows, return_inverse=True)
        shape = (len(different), self.cache.side, self.cache.side, 3)
        decoded = torch.empty(shape, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        self.cache.read(different, decoded.numpy())
        return decoded, places


def send(array: NDArray[Any], device: torch.device) -> Tensor:
    """Copy an array to the device without waiting for the device."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
