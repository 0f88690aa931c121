"""Training images as the data set has them, read by their ids. Knows no data set and no network."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from PIL import Image

from nsh.core.reading import Load, read_image
from nsh.training.finetune.order import Rows


@dataclass(frozen=True, kw_only=True)
class ImageFiles:
    """The training images, in the order of the data's rows.

    Attributes:
        ids: the ids of all images.
        digest: the digest of the split whose training part they are.
        load: gives the image of an id.
        size: S, pixels a side of what the network sees.
        resample: name of Pillow's filter.
        workers: threads that decode.
    """

    ids: Sequence[str]
    digest: str
    load: Load
    size: int
    resample: str
    workers: int

    def take(self, rows: Rows) -> Self:
        """The images in `rows`, int64 [m], in that order."""
        return replace(self, ids=[self.ids[row] for row in rows])

    def read(self, row: int) -> Image.Image:
        """The image in a row.

        Raises:
            DataError: it cannot be read.
        """
        return read_image(self.load, self.ids[row])
