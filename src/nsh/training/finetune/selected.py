"""The images that a method trains on, by their rows in its data, among all training images. It makes no pixels."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nsh.core.errors import TrainingError
from nsh.methods.base import TrainingData
from nsh.training.finetune.images import Pair, TrainingImages
from nsh.training.finetune.order import Rows


@dataclass(frozen=True)
class SelectedImages:
    """Some of the training images, which a method has chosen by itself, or all of them.

    Attributes:
        images: all training images.
        rows: int64 [n], where the selected ones stand among them.
    """

    images: TrainingImages
    rows: Rows

    def read_pairs(self, batches: Sequence[Rows], *, seed: int, epoch: int) -> Iterator[Pair]:
        """As `TrainingImages.read_pairs`, with the selection's rows for batches and pairs.

        Raises:
            DataError: an image cannot be read.
        """
        pairs = self.images.read_pairs([self.rows[batch] for batch in batches], seed=seed, epoch=epoch)
        for batch, (_, first, second) in zip(batches, pairs, strict=True):
            yield torch.from_numpy(batch[:, 0]), first, second

    def read_clean(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """As `TrainingImages.read_clean`, with the selection's rows for batches.

        Raises:
            DataError: an image cannot be read.
        """
        return self.images.read_clean([self.rows[batch] for batch in batches])


def select_images(images: TrainingImages, data: TrainingData) -> SelectedImages:
    """The images of `data`.

    Raises:
        TrainingError: `data` holds another number of images and does not say which.
    """
    count = len(images.ids)
    if data.rows is None and len(data.features) != count:
        raise TrainingError(
            f"found {count} training images and features of {len(data.features)}, which do not say whose they are: "
            "run the embed stage again, or let the method select by TrainingData.take"
        )
    return SelectedImages(images, np.arange(count) if data.rows is None else data.rows)
