"""Training images as the data set has them: read by an id, decoded by threads. Knows neither data sets nor networks."""

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
        ids: of all of them.
        digest: of the split that they are the training part of: other images have another one.
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
        """The images in some of the rows alone, in the order of `rows`, int64 [m]."""
        return replace(self, ids=[self.ids[row] for row in rows])

    def read(self, row: int) -> Image.Image:
        """The image in a row.

        Raises:
            DataError: it cannot be read.
        """
        return read_image(self.load, self.ids[row])
