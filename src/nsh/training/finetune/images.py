"""Training images from where they lie to the pixels of a batch: decoded and augmented by threads, a few batches ahead.

The two views of an image in an epoch are the next two of the endless sequence whose first ones the embed stage cached
(`nsh.training.augment.view_generator`): they depend on (seed, image, epoch) alone, not on order, workers or ranks. Of a
pair of images one gives its first view and the other its second.
It does not know data sets nor what becomes of the pixels.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from nsh.core.errors import DataError, UnreadableImage
from nsh.core.preprocess import to_input
from nsh.training.augment import augment, view_generator
from nsh.training.finetune.order import Rows

Load = Callable[[str], Image.Image]
"""An id to its image, upright 8-bit RGB; called by several threads at once."""
Pair = tuple[Tensor, Tensor, Tensor]
"""Rows int64 [n], a view each of the images in them, and one each of their partners, uint8 [n, S, S, 3] each."""

_AHEAD = 2  # batches made ahead


@dataclass(frozen=True, kw_only=True)
class TrainingImages:
    """The training images, in the order of the data's rows.

    Attributes:
        ids: of all of them.
        load: gives the image of an id.
        size: S, pixels a side.
        resample: name of Pillow's filter.
        workers: threads that decode and augment.
    """

    ids: Sequence[str]
    load: Load
    size: int
    resample: str
    workers: int

    def read_pairs(self, batches: Iterable[Rows], *, seed: int, epoch: int) -> Iterator[Pair]:
        """The views of every pair of images in each of `batches` that belong to `epoch`, counted from 0.

        Args:
            batches: rows of pairs, int64 [n, 2]: the image of the first view and that of the second, often the same.
            seed: of all views.
            epoch: which views.

        Raises:
            DataError: an image cannot be read.
        """
        views = (2 * epoch, 2 * epoch + 1)
        for rows, pixels in self._ahead(batches, partial(self._draw, seed=seed, views=views)):
            first, second = pixels.unbind(dim=1)
            yield torch.from_numpy(rows[:, 0]), first, second

    def read_clean(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """The images in each of `batches` as the encoder sees them, uint8 [n, S, S, 3].

        Raises:
            DataError: an image cannot be read.
        """
        return (pixels for _, pixels in self._ahead(batches, self._clean))

    def _ahead(
        self, batches: Iterable[Rows], make: Callable[[Rows], NDArray[np.uint8]]
    ) -> Iterator[tuple[Rows, Tensor]]:
        waiting: deque[tuple[Rows, list[Future[NDArray[np.uint8]]]]] = deque()
        pool = ThreadPoolExecutor(self.workers)
        try:
            for rows in batches:
                waiting.append((rows, [pool.submit(make, row) for row in rows]))
                if len(waiting) > _AHEAD:
                    yield _collect(*waiting.popleft())
            while waiting:
                yield _collect(*waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _draw(self, pair: Rows, *, seed: int, views: tuple[int, int]) -> NDArray[np.uint8]:
        rows = pair.tolist()
        images = {row: self._load(row) for row in set(rows)}  # most often one alone
        made = []
        for row, view in zip(rows, views, strict=True):
            generator = view_generator(seed, image=row, view=view)
            made.append(augment(images[row], generator, size=self.size, resample=self.resample))
        return np.stack(made)

    def _clean(self, row: Rows) -> NDArray[np.uint8]:
        return to_input(self._load(int(row)), size=self.size, resample=self.resample)

    def _load(self, row: int) -> Image.Image:
        try:
            return self.load(self.ids[row])
        except UnreadableImage as error:
            raise DataError(
                f"image {self.ids[row]!r} was readable when the split was drawn and is not now ({error}): "
                "restore it, or draw the split again with `dvc repro -f split`"
            ) from error


def _collect(rows: Rows, futures: list[Future[NDArray[np.uint8]]]) -> tuple[Rows, Tensor]:
    return rows, torch.from_numpy(np.stack([future.result() for future in futures]))
