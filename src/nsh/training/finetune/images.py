"""Inputs of a network in training; pixels of a batch: two views of each image, new in every epoch, and clean images.

Images are decoded once, into a cache. Views are made from them on the network's device. A view depends on (seed, row,
epoch) alone, not on order, workers or ranks. Knows no data set and no use of the pixels.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Protocol, Self, TypeVar

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor

from nsh.core.preprocess import to_input
from nsh.system.progress import Progress
from nsh.system.threads import map_in_threads
from nsh.training.finetune.augment_batch import augment
from nsh.training.finetune.augmentations import draw_views
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.image_cache import begin_cache, fill_cache, name_cache, open_cache
from nsh.training.finetune.image_reader import ImageReader, open_reader, send
from nsh.training.finetune.order import Rows

Pair = tuple[Tensor, Tensor, Tensor]
"""Rows int64 [n]; a view of each of these images and a view of each one's partner, as the network takes them: pixels,
uint8 [n, S, S, 3] each, or inner activations, float32 [n, C h w] each."""
T = TypeVar("T")


class Inputs(Protocol):
    """The training images as a network takes them, in the order of the data's rows."""

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all images."""
        ...

    def read_pairs(self, batches: Iterable[Rows], *, seed: int, epoch: int) -> Iterator[Pair]:
        """The views of each of `batches`, int64 [n, 2], in `epoch`, counted from 0.

        The first view is of the image in column 0, the second of the image in column 1, which is mostly the same one.
        """
        ...

    def read_clean(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """The clean images in each of `batches`, int64 [n]."""
        ...


@dataclass(frozen=True, kw_only=True)
class TrainingImages:
    """`Inputs` as pixels.

    Attributes:
        files: the images as the data set has them.
        sizes: int32 [n, 2], their width and height.
        reader: reads them decoded.
        device: where views are made.
    """

    files: ImageFiles
    sizes: NDArray[np.int32]
    reader: ImageReader
    device: torch.device

    @classmethod
    def prepare(cls, files: ImageFiles, *, cache: Path, fabric: Fabric, progress: Progress) -> Self:
        """Decode what is missing in the image cache below `cache`, together with the other ranks, and open it.

        Raises:
            DataError: an image cannot be read.
        """
        folder = cache / name_cache(files)
        if fabric.is_global_zero:
            begin_cache(files, folder)
        fabric.barrier()
        fill_cache(files, folder, rank=fabric.global_rank, ranks=fabric.world_size, progress=progress)
        fabric.barrier()
        decoded = open_cache(folder)
        reader = open_reader(decoded, fabric.device, workers=files.workers)
        return cls(files=files, sizes=decoded.sizes, reader=reader, device=fabric.device)

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all images."""
        return self.files.ids

    def read_pairs(self, batches: Iterable[Rows], *, seed: int, epoch: int) -> Iterator[Pair]:
        """See `Inputs`; on the device."""
        return _prefetch(self._draw_pairs(list(batches), seed=seed, epoch=epoch))

    def read_clean(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """Read the images in each of `batches`, int64 [n], from their files as the encoder does: uint8 [n, S, S, 3].

        Raises:
            DataError: an image cannot be read.
        """
        batches, files = list(batches), self.files
        made = map_in_threads(self._clean, chain(*batches), threads=files.workers)
        return (torch.from_numpy(np.stack(list(islice(made, len(rows))))) for rows in batches)

    def _draw_pairs(self, batches: list[Rows], *, seed: int, epoch: int) -> Iterator[Pair]:
        views = [draw_views(self.sizes, seed=seed, epoch=epoch, view=view) for view in range(2)]
        decoded = self.reader.read(rows.T.ravel() for rows in batches)
        for rows, both in zip(batches, decoded, strict=True):
            drawn = views[0].take(rows[:, 0]).join(views[1].take(rows[:, 1]))
            first, second = augment(both, drawn, size=self.files.size).chunk(2)
            yield send(rows[:, 0], self.device), first, second

    def _clean(self, row: int) -> NDArray[np.uint8]:
        return to_input(self.files.read(row), size=self.files.size, resample=self.files.resample)


def _prefetch(items: Iterator[T]) -> Iterator[T]:
    """Prefetch one item, so that a GPU makes batch i + 1 during step i."""
    held = list(islice(items, 1))
    for item in items:
        yield held.pop()
        held.append(item)
    yield from held
