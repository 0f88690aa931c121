"""Converts a file, bytes, a Pillow image or an array to the encoder's input pixels.

Training, encoding and serving all use it, so the same image gives the same pixels everywhere. Knows no data set,
network or normalisation, which is in the encoder's graph.
"""

import io
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nsh.core.limits import MAX_PIXELS
from nsh.core.metadata import orientation_of, without_metadata
from nsh.core.opening import READERS, check_size, open_image
from nsh.core.samples import to_rgb
from nsh.errors import ConfigError, UnreadableImage

PREPROCESSING = 2
"""The version of the rules that turn a file into pixels: raise it whenever a pixel may change, in any module of core.

An encoder carries the version that it was made with, as a part of its identity. Its codes are those of these pixels, so
an encoder of another version is refused.
"""

ImageSource = str | Path | bytes | Image.Image | NDArray[np.uint8]

FORMATS = tuple(READERS)
"""The formats that are opened: those of photographs. EPS, which Pillow passes to Ghostscript, is left out."""

RESAMPLES = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

_EXIF_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def load_input(source: ImageSource, *, size: int, resample: str, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """The input, uint8 [size, size, 3] in 0..255, of an encoder whose contract has `size` and `resample`.

    Raises:
        UnreadableImage: as `load_image`.
        ConfigError: as `to_input`.

    Examples:
        >>> load_input(np.zeros((30, 40, 3), np.uint8), size=8, resample="bilinear").shape
        (8, 8, 3)
    """
    return to_input(load_image(source, size=size, max_pixels=max_pixels), size=size, resample=resample)


def load_image(source: ImageSource, *, size: int | None = None, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Decode the whole `source` and return it upright in 8-bit RGB; the source is not changed.

    The rules: EXIF orientation is applied. Damaged or very large metadata are ignored. Samples of more than 8 bits are
    scaled, not clipped, to the white that the format states. Transparency, and the canvas that the first frame of an
    animation does not cover, become white. CMYK, YCCK, palette, 1-bit and grey become RGB. An animation is its first
    frame (a Pillow image its current one). Colour profiles are ignored. The result has no metadata, so loading it again
    changes nothing.

    A JPEG file whose sides are both 4 x `size` or longer is decoded at 1/2, 1/4 or 1/8 of its size: the smallest at
    which both sides are still 2 x `size` or longer. A Pillow image keeps the pixels it has.

    Args:
        source: a path, the bytes of a file, a Pillow image, or an array uint8 [H, W] grey, [H, W, 3] RGB or
            [H, W, 4] RGBA.
        size: pixels a side of the encoder's input, or of what else is made of the image; None: decode all pixels.
        max_pixels: largest width x height to decode; how a reduced JPEG counts, `nsh.core.reduced_jpeg` says. Decoding
            takes about 4 bytes a pixel, twice that if the image is rotated or is not RGB. A progressive JPEG takes 3 to
            8 more.

    Raises:
        UnreadableImage: for any reason. The message has the reason without the path, so that it is the same on every
            machine; the caller adds the image's name.

    Examples:
        >>> image = load_image(np.array([[0, 127, 255]], np.uint8))  # grey, 3 pixels wide
        >>> image.mode, image.size, image.getpixel((1, 0))
        ('RGB', (3, 1), (127, 127, 127))
        >>> load_image(b"")
        Traceback (most recent call last):
        nsh.errors.UnreadableImage: the file is empty
    """
    try:
        if isinstance(source, np.ndarray):
            source = _from_array(source)
        if isinstance(source, Image.Image):
            check_size(source.size, max_pixels=max_pixels)
            made = _decode(source)
            return made.copy() if made.im is source.im else made
        return _load_file(source, size=size, max_pixels=max_pixels)
    except UnreadableImage:
        raise
    except Exception as error:  # Pillow's decoders raise nearly every built-in exception on broken files
        raise UnreadableImage(_reason(error)) from error


def to_input(image: Image.Image, *, size: int, resample: str) -> NDArray[np.uint8]:
    """Squash an RGB image to the encoder's input, uint8 [size, size, 3] in 0..255.

    Pillow's filters are antialiased when they shrink. The aspect ratio is not kept and nothing is cropped, as in the
    protocol of Yu et al., IJCAI 2022.

    Raises:
        ConfigError: `resample` is no key of `RESAMPLES`.

    Examples:
        >>> image = load_image(np.zeros((30, 40, 3), np.uint8))
        >>> to_input(image, size=8, resample="bilinear").shape
        (8, 8, 3)
    """
    return np.array(image.resize((size, size), resample=filter_of(resample)))


def filter_of(resample: str) -> Image.Resampling:
    """Pillow's filter of a name.

    Raises:
        ConfigError: there is no such filter, or it would alias.

    Examples:
        >>> filter_of("bicubic").name
        'BICUBIC'
        >>> filter_of("nearest")
        Traceback (most recent call last):
        nsh.errors.ConfigError: resample: found 'nearest', allowed are bilinear, bicubic, lanczos
    """
    if resample not in RESAMPLES:
        raise ConfigError(f"resample: found {resample!r}, allowed are {', '.join(RESAMPLES)}")
    return RESAMPLES[resample]


def _load_file(source: str | Path | bytes, *, size: int | None, max_pixels: int) -> Image.Image:
    """Decode a file; if that fails, decode it again without its metadata."""
    with _stream(source) as file:
        try:
            return _decode(open_image(file, size=size, max_pixels=max_pixels))
        except UnreadableImage:
            raise
        except Exception:
            file.seek(0)
            bare = without_metadata(file.read())
            if bare is None:
                raise
    image = open_image(io.BytesIO(bare.content), size=size, max_pixels=max_pixels)
    if bare.exif is not None:
        image.info["exif"] = bare.exif
    return _decode(image)


def _stream(source: str | Path | bytes) -> IO[bytes]:
    if isinstance(source, bytes):
        size = len(source)
    else:
        source = Path(source)
        status = source.stat()
        size = status.st_size
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableImage("a folder, not an image file")
        if not stat.S_ISREG(status.st_mode):  # reading a named pipe would never end
            raise UnreadableImage("not a regular file")
    if not size:
        raise UnreadableImage("the file is empty")
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


def _from_array(pixels: NDArray[np.uint8]) -> Image.Image:
    channels = pixels.shape[2:]
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or channels not in ((), (3,), (4,)) or not pixels.size:
        raise UnreadableImage(
            f"found an array {pixels.dtype} {list(pixels.shape)}, allowed are uint8 [H, W], [H, W, 3] and [H, W, 4]"
        )
    return Image.fromarray(np.ascontiguousarray(pixels))


def _decode(image: Image.Image) -> Image.Image:
    """The pixels of `image`, upright and without metadata; without conversion they share its memory."""
    made = to_rgb(image)
    orientation = _orientation(image)
    if orientation in _UPRIGHT:
        made = made.transpose(_UPRIGHT[orientation])
    made.info = {}  # else the next load_image would apply the orientation again
    return made


def _orientation(image: Image.Image) -> int:
    with suppress(Exception):  # the pixels are valid: a broken EXIF block is no reason to lose the image
        return int(image.getexif().get(_EXIF_ORIENTATION, 1))
    return orientation_of(image.info.get("exif", b""))


def _reason(error: Exception) -> str:
    """A sentence without addresses or paths, which would differ from run to run."""
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"cannot be decoded: {str(error) or type(error).__name__}"
