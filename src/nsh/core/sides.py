"""How long the sides of an image file are, from its header. Decodes no pixel where it can do without."""

import io
import sys

from nsh.core.opening import open_image
from nsh.core.preprocess import load_image


def read_sides(content: bytes) -> tuple[int, int]:
    """The shorter and the longer side in pixels of the image in `content`, with all its pixels.

    Raises:
        UnreadableImage: it is no image.

    Examples:
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (40, 30)).save(file, "JPEG")
        >>> read_sides(file.getvalue())
        (30, 40)
    """
    try:
        sides = open_image(io.BytesIO(content), max_pixels=sys.maxsize).size
    except Exception:  # Pillow's readers raise nearly every built-in exception on damaged metadata
        sides = load_image(content, max_pixels=sys.maxsize).size
    return min(sides), max(sides)
