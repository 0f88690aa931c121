"""Squares of a store on the device where the network is: all of them for good, or a batch at a time.

Knows no augmentation.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nsh.system.threads import map_in_threads
from nsh.training.finetune.order import Rows
from nsh.training.finetune.store import SHARD, Store

SHARE = 1 / 4
"""Of the free memory of a device, what squares may take of it; network, optimiser and activations need the rest."""

_AHEAD = 3  # batches in work: the one that is asked for, and two ahead


class Source(Protocol):
    """Gives squares."""

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """The squares in the rows of each batch, uint8 [n, side, side, 3], on the device; a row may come twice."""
        ...


def open_source(store: Store, device: torch.device, *, workers: int) -> Source:
    """Resident where the squares may lie on the device, else streamed; on the CPU the disk's own cache is enough."""
    if device.type == "cuda" and store.bytes <= SHARE * torch.cuda.mem_get_info(device)[0]:
        return Resident(store, device)
    return Streamed(store, device, workers=workers)


class Resident:
    """A `Source` that has put all squares on the device."""

    def __init__(self, store: Store, device: torch.device) -> None:
        shape = (len(store.sizes), store.side, store.side, 3)
        self.squares = torch.empty(shape, dtype=torch.uint8, device=device)
        for number, shard in enumerate(store.shards):
            self.squares[number * SHARD : number * SHARD + len(shard)] = torch.from_numpy(np.array(shard))

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """See `Source`."""
        return (self.squares[send(rows, self.squares.device)] for rows in batches)


class Streamed:
    """A `Source` that reads from the disk, a few batches ahead, by `workers` threads."""

    def __init__(self, store: Store, device: torch.device, *, workers: int) -> None:
        self.store, self.device, self.workers = store, device, workers

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """See `Source`."""
        for squares, places in map_in_threads(self._read, batches, threads=self.workers, ahead=_AHEAD):
            yield squares.to(self.device, non_blocking=True)[send(places, self.device)]

    def _read(self, rows: Rows) -> tuple[Tensor, Rows]:
        """The different squares of a batch, and where each row's is among them."""
        different, places = np.unique(rows, return_inverse=True)
        shape = (len(different), self.store.side, self.store.side, 3)
        squares = torch.empty(shape, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        self.store.read(different, squares.numpy())
        return squares, places


def send(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array on the device, without waiting for what the device is at."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
