"""Converts an opened image to opaque 8-bit RGB, by each format's rules for levels, transparency and canvases.

Converts one strip at a time, so that memory is little more than the image and its RGB copy.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from PIL import GifImagePlugin, Image, PngImagePlugin, TiffImagePlugin

from nsh.core.opening import SEPARATE, WHITE_IS_ZERO, is_misread
from nsh.errors import UnreadableImage

_DEEP_MODES = ("I", "I;16", "I;16L", "I;16B", "I;16N")
_ONE_COLOUR_AND_ALPHA = ("LA", "La", "PA")
"""Modes of four bytes a pixel: of planes, Pillow reads the second into the second byte, and alpha is the fourth."""
_STRIP_PIXELS = 1 << 20
_SIGNED = 2  # of TIFF's SampleFormat
_PNG_SCALES = {"L;2": 85, "L;4": 17}

Box = tuple[int, int, int, int]


class Levels(NamedTuple):
    """How samples are read: `white` is the largest value of deep samples; `clear` is info["transparency"]."""

    white: int = 65_535
    inverted: bool = False
    clear: int | tuple[int, ...] | bytes | None = None


def to_rgb(image: Image.Image) -> Image.Image:
    """Decode `image` and return it in 8-bit RGB over white; an opaque RGB image shares its memory with the result.

    The part of the canvas that a GIF's first frame does not cover is white.

    Raises:
        UnreadableImage: its samples have no stated white.

    Examples:
        >>> clear = Image.new("RGBA", (1, 1), (0, 0, 0, 0))
        >>> to_rgb(clear).getpixel((0, 0))
        (255, 255, 255)
    """
    levels, covered = _levels(image), _covered(image)
    image.load()
    if image.mode == "RGB" and levels.clear is None:
        return image._new(image.im)  # a plain image without a reference to the decoder
    made = Image.new("RGB", image.size, "white")
    for box in _strips(covered or (0, 0, *image.size)):
        strip = image.crop(box)
        if levels.clear is not None:
            strip.info["transparency"] = levels.clear
        made.paste(_convert(strip, levels), box)
    return made


def _strips(area: Box) -> Iterator[Box]:
    left, top, right, bottom = area
    rows = max(1, _STRIP_PIXELS // max(1, right - left))
    for start in range(top, bottom, rows):
        yield left, start, right, min(start + rows, bottom)


def _covered(image: Image.Image) -> Box | None:
    """The part of the canvas that a GIF's first frame covers; None for other images."""
    if not isinstance(image, GifImagePlugin.GifImageFile) or not image.tile or image.tell() != 0:
        return None
    return image.tile[0].extents


def _levels(image: Image.Image) -> Levels:
    """The levels that the open file states."""
    if image.mode == "F":
        raise UnreadableImage("floating point values have no stated white: save it with 8 bits a channel")
    clear = image.info.get("transparency")
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        return _tiff_levels(image)
    if isinstance(image, PngImagePlugin.PngImageFile) and image.tile:  # Pillow scales the samples, not the clear one
        layout = str(image.tile[0].args)
        if isinstance(clear, int):
            clear *= _PNG_SCALES.get(layout, 1)
        elif isinstance(clear, tuple) and layout == "RGB;16B":
            clear = tuple(level >> 8 for level in clear)
    return Levels(clear=clear)


def _tiff_levels(image: TiffImagePlugin.TiffImageFile) -> Levels:
    """TIFF 6.0, section 4: the largest of n bits, 2^n - 1, is white, or black where WhiteIsZero."""
    tags = image.tag_v2
    if _SIGNED in np.atleast_1d(tags.get(TiffImagePlugin.SAMPLEFORMAT, 1)):
        raise UnreadableImage("signed values have no stated black: save it with 8 or 16 unsigned bits a channel")
    if is_misread(tags) and not image.use_load_libtiff:
        raise UnreadableImage("a TIFF that Pillow misreads when it opens it: give its path or its bytes instead")
    if tags.get(TiffImagePlugin.PLANAR_CONFIGURATION) == SEPARATE and image.mode in _ONE_COLOUR_AND_ALPHA:
        raise UnreadableImage("alpha in a plane beside one of grey or of a palette: save it without planes, or as RGB")
    bits = max(np.atleast_1d(tags.get(TiffImagePlugin.BITSPERSAMPLE, 1)).tolist())
    return Levels(2**bits - 1, tags.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION) == WHITE_IS_ZERO)


def _convert(strip: Image.Image, levels: Levels) -> Image.Image:
    if strip.mode in _DEEP_MODES:
        strip = _shallow(strip, levels)
    return _over_white(strip) if strip.has_transparency_data else strip.convert("RGB")


def _shallow(image: Image.Image, levels: Levels) -> Image.Image:
    """Scale deep levels to 8 bits; Pillow opens some 16-bit files in mode "I" too."""
    found = np.asarray(image)
    if levels.white == 2**32 - 1:
        found = found.view(np.uint32)  # Pillow's are signed
    deep = found.astype(np.int64)
    if deep.min() < 0 or deep.max() > levels.white:
        raise UnreadableImage(
            f"values {deep.min()} to {deep.max()} exceed 16 bits: save it with 8 or 16 bits a channel"
        )
    shown = levels.white - deep if levels.inverted else deep
    grey = ((shown * 255 + levels.white // 2) // levels.white).astype(np.uint8)
    if levels.clear is None:
        return Image.fromarray(grey)
    return Image.fromarray(np.stack([grey, np.where(deep == levels.clear, 0, 255).astype(np.uint8)], axis=-1))


def _over_white(image: Image.Image) -> Image.Image:
    foreground = image.convert("LA").convert("RGBA") if image.mode == "La" else image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, foreground).convert("RGB")
