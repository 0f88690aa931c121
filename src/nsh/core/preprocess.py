"""Image in: the one way from a file, bytes, a Pillow image or an array to the pixels the encoder takes.

Training, encoding and serving all come through here, so the same image gives the same pixels everywhere.
It knows nothing of data sets, networks or normalisation (that lives inside the encoder's graph).
"""

import io
import stat
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from nsh.core.errors import ConfigError, UnreadableImage

ImageSource = str | Path | bytes | Image.Image | NDArray[np.uint8]

MAX_PIXELS = 89_478_485
"""Width x height an image may have: Pillow's own first limit, 256 MB of RGB."""

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "DIB")
"""What is opened: formats photographs come in. EPS, which Pillow hands to Ghostscript, stays outside."""

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
_DEEP_MODES = ("I", "I;16", "I;16L", "I;16B", "I;16N")
_DEEP_WHITE = 65_535


def load_image(source: ImageSource) -> Image.Image:
    """Decode `source` in full and return it upright in 8-bit RGB; the source is left as it was.

    The rules: EXIF orientation is applied (a broken EXIF block counts as none); 16-bit grey is scaled to
    8 bits, not clipped; transparency is composited over white; CMYK, YCCK, palette, 1-bit and grey become
    RGB; of an animation the first frame is taken (of a Pillow image its current one); embedded colour
    profiles are ignored. The result carries no metadata, so loading it again changes nothing.

    Args:
        source: a path, the bytes of a file, a Pillow image, or an array uint8 [H, W] grey, [H, W, 3] RGB or
            [H, W, 4] RGBA.

    Raises:
        UnreadableImage: whatever the reason. The message is the reason alone, without the path, so that it
            reads the same on every machine: the caller adds the name by which it knows the image.
    """
    try:
        if isinstance(source, np.ndarray):
            return _to_rgb(_from_array(source))
        if isinstance(source, Image.Image):
            return _to_rgb(source)
        with _open(source) as image:
            return _to_rgb(image)
    except UnreadableImage:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableImage(f"more than the {MAX_PIXELS} pixels allowed: make it smaller") from error
    except UnidentifiedImageError as error:
        raise UnreadableImage(f"not an image in any of the formats {', '.join(FORMATS)}") from error
    except Exception as error:  # Pillow's decoders raise nearly every built-in exception on broken files
        raise UnreadableImage(_reason(error)) from error


def to_input(image: Image.Image, *, size: int, resample: str) -> NDArray[np.uint8]:
    """Squash an RGB image to the encoder's input, uint8 [size, size, 3] in 0..255.

    Pillow's filters are antialiased when they shrink; the aspect ratio is not kept and nothing is cut off,
    as in the protocol of Yu et al., IJCAI 2022.

    Raises:
        ConfigError: `resample` is no key of `RESAMPLES`.
    """
    return np.array(image.resize((size, size), resample=filter_of(resample)))


def filter_of(resample: str) -> Image.Resampling:
    """Pillow's filter of that name.

    Raises:
        ConfigError: there is none, or it would alias.
    """
    if resample not in RESAMPLES:
        raise ConfigError(f"resample: found {resample!r}, allowed are {', '.join(RESAMPLES)}")
    return RESAMPLES[resample]


def _open(source: str | Path | bytes) -> Image.Image:
    if isinstance(source, bytes):
        size = len(source)
    else:
        source = Path(source)
        status = source.stat()
        size = status.st_size
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableImage("a folder, not an image file")
        if not stat.S_ISREG(status.st_mode):  # reading a named pipe would wait for ever
            raise UnreadableImage("not a regular file")
    if not size:
        raise UnreadableImage("the file is empty")
    return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)


def _from_array(pixels: NDArray[np.uint8]) -> Image.Image:
    channels = pixels.shape[2:]
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or channels not in ((), (3,), (4,)) or not pixels.size:
        raise UnreadableImage(
            f"found an array {pixels.dtype} {list(pixels.shape)}, allowed are uint8 [H, W], [H, W, 3] and [H, W, 4]"
        )
    return Image.fromarray(np.ascontiguousarray(pixels))


def _to_rgb(image: Image.Image) -> Image.Image:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise UnreadableImage(f"{width} x {height} is more than the {MAX_PIXELS} pixels allowed: make it smaller")
    if not width * height:
        raise UnreadableImage(f"{width} x {height} has no pixel")
    if image.mode == "F":
        raise UnreadableImage("floating point values have no stated white: save it with 8 bits a channel")
    image.load()
    orientation = _orientation(image)
    if image.mode in _DEEP_MODES:
        image = _shallow(image)
    image = _over_white(image) if image.has_transparency_data else image.convert("RGB")
    if orientation in _UPRIGHT:
        image = image.transpose(_UPRIGHT[orientation])
    image.info = {}  # an orientation left behind would be applied again by the next load_image
    return image


def _orientation(image: Image.Image) -> int:
    with suppress(Exception):  # the pixels are sound: a broken EXIF block is no reason to lose the image
        return int(image.getexif().get(_EXIF_ORIENTATION, 1))
    return 1


def _shallow(image: Image.Image) -> Image.Image:
    """Scale 16 bits to 8; "I" is what Pillow makes of some 16-bit files, true 32-bit values have no known white."""
    deep = np.asarray(image).astype(np.int64)
    if deep.min() < 0 or deep.max() > _DEEP_WHITE:
        raise UnreadableImage(
            f"values {deep.min()} to {deep.max()} exceed 16 bits: save it with 8 or 16 bits a channel"
        )
    grey = ((deep * 255 + _DEEP_WHITE // 2) // _DEEP_WHITE).astype(np.uint8)
    clear = image.info.get("transparency")
    if clear is None:
        return Image.fromarray(grey)
    return Image.fromarray(np.stack([grey, np.where(deep == clear, 0, 255).astype(np.uint8)], axis=-1))


def _over_white(image: Image.Image) -> Image.Image:
    foreground = image.convert("LA").convert("RGBA") if image.mode == "La" else image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, foreground).convert("RGB")


def _reason(error: Exception) -> str:
    """A sentence without addresses or paths, which would differ from run to run."""
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"cannot be decoded: {str(error) or type(error).__name__}"
