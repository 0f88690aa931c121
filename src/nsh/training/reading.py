"""Reading an image that the split has found readable. Knows no data set."""

from collections.abc import Callable

from PIL import Image

from nsh.errors import DataError, UnreadableImage

Load = Callable[[str], Image.Image]
"""An id to its image, upright 8-bit RGB; called by several threads at once."""


def read_image(load: Load, name: str) -> Image.Image:
    """The image of the id `name`.

    Raises:
        DataError: it cannot be read any more.
    """
    try:
        return load(name)
    except UnreadableImage as error:
        raise DataError(
            f"image {name!r} was readable when the split was drawn and is not now ({error}): "
            "restore it, or draw the split again with `dvc repro -f split`"
        ) from error
