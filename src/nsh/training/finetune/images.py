"""Pixels of a batch for the network: two views of each image drawn anew in every epoch, and clean images.

Images are decoded once, into a store; views are made of its squares on the device where the network is. They depend on
(seed, row, epoch) alone, not on order, workers or ranks. It does not know data sets nor what becomes of the pixels.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor

from nsh.core.preprocess import to_input
from nsh.system.progress import Progress
from nsh.system.threads import map_in_threads
from nsh.training.finetune.augment_batch import augment
from nsh.training.finetune.draws import draw_views
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.order import Rows
from nsh.training.finetune.source import Source, open_source, send
from nsh.training.finetune.store import begin_store, fill_store, name_store, open_store

Pair = tuple[Tensor, Tensor, Tensor]
"""Rows int64 [n], and two views, uint8 [n, S, S, 3] each: of these images, and of those that they are paired with."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TrainingImages:
    """The training images, in the order of the data's rows.

    Attributes:
        files: the images as the data set has them.
        sizes: int32 [n, 2], their width and height.
        source: their squares.
        device: where views are made.
    """

    files: ImageFiles
    sizes: NDArray[np.int32]
    source: Source
    device: torch.device

    @classmethod
    def prepare(cls, files: ImageFiles, *, cache: Path, fabric: Fabric, progress: Progress) -> Self:
        """Make the store below `cache` together with the other ranks, or what it still lacks, and open it.

        Raises:
            DataError: an image cannot be read.
        """
        folder = cache / name_store(files)
        if fabric.is_global_zero:
            begin_store(files, folder)
        fabric.barrier()
        fill_store(files, folder, rank=fabric.global_rank, ranks=fabric.world_size, progress=progress)
        fabric.barrier()
        store = open_store(folder)
        source = open_source(store, fabric.device, workers=files.workers)
        return cls(files=files, sizes=store.sizes, source=source, device=fabric.device)

    @property
    def ids(self) -> Sequence[str]:
        """Of all images."""
        return self.files.ids

    def read_pairs(self, batches: Iterable[Rows], *, seed: int, epoch: int) -> Iterator[Pair]:
        """For each of `batches`, int64 [n, 2], the views that belong to `epoch`, counted from 0, on the device.

        The first is of the image in column 0, the second of the one in column 1, which mostly is the same.
        """
        return _lead(self._draw_pairs(list(batches), seed=seed, epoch=epoch))

    def read_clean(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """The images in each of `batches`, int64 [n], as the encoder sees them, uint8 [n, S, S, 3], from their files.

        Raises:
            DataError: an image cannot be read.
        """
        batches, files = list(batches), self.files
        made = map_in_threads(self._clean, chain(*batches), threads=files.workers)
        return (torch.from_numpy(np.stack(list(islice(made, len(rows))))) for rows in batches)

    def _draw_pairs(self, batches: list[Rows], *, seed: int, epoch: int) -> Iterator[Pair]:
        views = [draw_views(self.sizes, seed=seed, epoch=epoch, view=view) for view in range(2)]
        squares = self.source.read(rows.T.ravel() for rows in batches)
        for rows, both in zip(batches, squares, strict=True):
            drawn = views[0].take(rows[:, 0]).join(views[1].take(rows[:, 1]))
            first, second = augment(both, drawn, size=self.files.size).chunk(2)
            yield send(rows[:, 0], self.device), first, second

    def _clean(self, row: int) -> NDArray[np.uint8]:
        return to_input(self.files.read(row), size=self.files.size, resample=self.files.resample)


def _lead(items: Iterator[T]) -> Iterator[T]:
    """Each item when the next one is begun: a GPU makes that one while this one's step is on its way to it."""
    held = list(islice(items, 1))
    for item in items:
        yield held.pop()
        held.append(item)
    yield from held
