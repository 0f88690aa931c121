"""Reads images of a split, which the split stage found readable. Knows no data set."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nsh.core.preprocess import to_input
from nsh.errors import DataError, UnreadableImage

Load = Callable[[str], Image.Image]
"""From an id to its image, upright 8-bit RGB; called by several threads at once."""


def read_image(load: Load, name: str) -> Image.Image:
    """The image of the id `name`.

    Raises:
        DataError: it can no longer be read.

    Examples:
        >>> read_image(lambda name: Image.new("RGB", (4, 3)), "a.jpg").size
        (4, 3)
    """
    try:
        return load(name)
    except UnreadableImage as error:
        raise DataError(
            f"image {name!r} was readable when the split was drawn and is not now ({error}): "
            "restore it, or draw the split again with `dvc repro -f split`"
        ) from error


def read_inputs(load: Load, ids: Sequence[str], *, size: int, resample: str) -> NDArray[np.uint8]:
    """The images of n >= 1 ids in the shape of an encoder's input, uint8 [n, size, size, 3].

    Args:
        load: from an id to its image.
        ids: in the order of the result.
        size: pixels a side.
        resample: name of Pillow's filter.

    Raises:
        DataError: an image can no longer be read.

    Examples:
        >>> read_inputs(lambda name: Image.new("RGB", (4, 3)), ["a.jpg"], size=8, resample="bilinear").shape
        (1, 8, 8, 3)
    """
    return np.stack([to_input(read_image(load, name), size=size, resample=resample) for name in ids])
