"""Batches of two different views of the same images, from cached features. Knows no method and no network.

What is drawn depends on (seed, epoch) alone, so a resumed run sees what an uninterrupted one would have seen.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

Choice = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # rows, first view, second view: [batch] each
Pair = tuple[Tensor, Tensor, Tensor]  # rows int64 [batch], two views float32 [batch, d]


class PairSampler(Sampler[Choice]):
    """Shuffled batches of full size, with two different views drawn for every image.

    Args:
        images: number of training images.
        views: cached views of each, >= 2.
        batch: images a batch, <= images; a last incomplete batch is left out.
        seed: of all epochs.
    """

    def __init__(self, images: int, views: int, *, batch: int, seed: int) -> None:
        self.images = images
        self.views = views
        self.batch = batch
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, from 0; the trainer calls it before each one."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.images // self.batch

    def __iter__(self) -> Iterator[Choice]:
        generator = np.random.default_rng([self.seed, self.epoch])
        order = generator.permutation(self.images)
        for step in range(len(self)):
            rows = order[step * self.batch : (step + 1) * self.batch]
            first = generator.integers(self.views, size=self.batch)
            second = (first + generator.integers(1, self.views, size=self.batch)) % self.views
            yield rows, first, second


class PairedViews(Dataset[Pair]):
    """Cached views float16 [n, V, d], possibly memory-mapped, read as float32 a batch at a time."""

    def __init__(self, views: NDArray[np.float16]) -> None:
        self.views = views

    def __getitem__(self, choice: Choice) -> Pair:
        rows, first, second = choice
        return torch.from_numpy(rows), self._read(rows, first), self._read(rows, second)

    def _read(self, rows: NDArray[np.int64], view: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self.views[rows, view].astype(np.float32))


def load_pairs(views: NDArray[np.float16], *, batch: int, seed: int) -> DataLoader[Pair]:
    """All of it as one loader whose items are whole batches."""
    sampler = PairSampler(views.shape[0], views.shape[1], batch=batch, seed=seed)
    # DataLoader draws a seed for workers, of which there are none, and would take it from the global generator
    return DataLoader(PairedViews(views), sampler=sampler, batch_size=None, generator=torch.Generator())
