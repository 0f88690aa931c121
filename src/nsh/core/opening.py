"""From a file to an image that Pillow has opened and not yet decoded: which reader takes it, and what that misreads.

Readers are called by hand and not through `Image.open`, for three reasons: its limit on pixels is one for the whole
process, where ours belongs to a call; its JPEG reader gives up at a damaged index of further pictures; and some readers
take samples for what they are not, silently. Knows nothing of what samples mean once they are read.
"""

import struct
from collections.abc import Callable
from typing import IO

import numpy as np
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    ImagePalette,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from nsh.errors import UnreadableImage

_PREFIX = 32  # bytes that tell the format, and the flags of a WebP
_WEBP_FLAGS, _WEBP_ANIMATED = 20, 2
WHITE_IS_ZERO, _BLACK_IS_ZERO, _YCBCR = 0, 1, 6  # of TIFF's PhotometricInterpretation
_SEPARATE, _ALPHA = 2, 2  # of its PlanarConfiguration and ExtraSamples
_JFIF_COEFFICIENTS, _JFIF_RANGE = (0.299, 0.587, 0.114), (0, 255, 128, 255, 128, 255)
_YCBCR_TAGS: dict[int, tuple[tuple[float, ...], tuple[float, ...]]] = {
    529: (_JFIF_COEFFICIENTS, _JFIF_COEFFICIENTS),  # YCbCrCoefficients
    TiffImagePlugin.YCBCRSUBSAMPLING: ((2, 2), (1, 1)),
    TiffImagePlugin.REFERENCEBLACKWHITE: (_JFIF_RANGE, _JFIF_RANGE),
}
"""For each tag, what TIFF 6.0 says it is where it is missing, and what Pillow takes it for."""


def is_misread(tags: TiffImagePlugin.ImageFileDirectory_v2) -> bool:
    """Whether Pillow's own reader would take uncompressed samples of a TIFF with these tags for what they are not.

    It takes planes of 16 bits for planes of 8, chroma that is stored once for several pixels for chroma of each, and
    every YCbCr for JFIF's; of planes it knows no extra sample but plain alpha.

    Examples:
        >>> tags = TiffImagePlugin.ImageFileDirectory_v2()
        >>> tags[TiffImagePlugin.BITSPERSAMPLE] = (16, 16, 16)
        >>> is_misread(tags)
        False
        >>> tags[TiffImagePlugin.PLANAR_CONFIGURATION] = 2  # each channel for itself
        >>> is_misread(tags)
        True
    """
    separate = tags.get(TiffImagePlugin.PLANAR_CONFIGURATION) == _SEPARATE
    if tags.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION) == _YCBCR:
        return separate or any(tags.get(tag, stated) != jfif for tag, (stated, jfif) in _YCBCR_TAGS.items())
    deep = max(tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,))) > 8
    return separate and (deep or any(kind != _ALPHA for kind in tags.get(TiffImagePlugin.EXTRASAMPLES, ())))


class _TiffImage(TiffImagePlugin.TiffImageFile):
    """Leaves to libtiff what Pillow's own reader of uncompressed samples would misread; knows more negatives."""

    def _setup(self) -> None:
        """Let Pillow take deep negatives for positives, for it knows few of them and inverts none: `to_rgb` does."""
        tags, photometric = self.tag_v2, TiffImagePlugin.PHOTOMETRIC_INTERPRETATION
        negative = tags.get(photometric) == WHITE_IS_ZERO and max(tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,))) > 8
        if negative:
            tags[photometric] = _BLACK_IS_ZERO
        super()._setup()
        if negative:
            tags[photometric] = WHITE_IS_ZERO

    @property
    def _compression(self) -> str:
        return "none" if self._stated_compression == "raw" and is_misread(self.tag_v2) else self._stated_compression

    @_compression.setter
    def _compression(self, compression: str) -> None:
        self._stated_compression = compression


READERS: dict[str, Callable[[IO[bytes]], ImageFile.ImageFile]] = {
    "JPEG": JpegImagePlugin.JpegImageFile,
    "PNG": PngImagePlugin.PngImageFile,
    "WEBP": WebPImagePlugin.WebPImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "TIFF": _TiffImage,
    "PPM": PpmImagePlugin.PpmImageFile,
    "JPEG2000": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "AVIF": AvifImagePlugin.AvifImageFile,
    "DIB": BmpImagePlugin.DibImageFile,
}


def open_image(file: IO[bytes], *, max_pixels: int) -> Image.Image:
    """Open the image in `file`, which must stay open until the image is decoded.

    Raises:
        UnreadableImage: it is in no known format, or larger than `max_pixels`.
        Exception: Pillow's readers raise nearly every built-in one on a broken file.

    Examples:
        >>> import io
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (4, 3)).save(file, "png")
        >>> _ = file.seek(0)
        >>> open_image(file, max_pixels=100).size
        (4, 3)
    """
    prefix = file.read(_PREFIX).ljust(_PREFIX, b"\0")  # some of Pillow's looks fail on less
    for name, reader in READERS.items():
        accept = Image.OPEN[name][1]
        if accept is None or accept(prefix) is True:
            file.seek(0)
            image = reader(file)
            check_size(image.size, max_pixels=max_pixels)
            return _REMEDIES.get(name, _as_it_is)(image, file, prefix)
    raise UnreadableImage(f"not an image in any of the formats {', '.join(READERS)}")


def check_size(size: tuple[int, int], *, max_pixels: int) -> None:
    """Hold width x height against the limit.

    Raises:
        UnreadableImage: there are more pixels than `max_pixels`, or none.

    Examples:
        >>> check_size((4, 3), max_pixels=12)
        >>> check_size((4, 3), max_pixels=10)
        Traceback (most recent call last):
        nsh.errors.UnreadableImage: 4 x 3 is more than the 10 pixels allowed: ...
    """
    width, height = size
    if width * height > max_pixels:
        raise UnreadableImage(
            f"{width} x {height} is more than the {max_pixels} pixels allowed: make it smaller, or allow more with "
            "--max-pixels"
        )
    if not width * height:
        raise UnreadableImage(f"{width} x {height} has no pixel")


def _as_it_is(image: ImageFile.ImageFile, file: IO[bytes], prefix: bytes) -> Image.Image:
    return image


def _remedy_tiff(image: ImageFile.ImageFile, file: IO[bytes], prefix: bytes) -> Image.Image:
    assert isinstance(image, TiffImagePlugin.TiffImageFile)
    # Pillow would make this canvas itself, after a look at its own limit on pixels
    size = image.tag_v2[TiffImagePlugin.IMAGEWIDTH], image.tag_v2[TiffImagePlugin.IMAGELENGTH]
    image.im = Image.new(image.mode, size).im
    return image


def _remedy_webp(image: ImageFile.ImageFile, file: IO[bytes], prefix: bytes) -> Image.Image:
    """Ask for alpha of an animation: what its first frame leaves free is clear, whatever the file says of alpha."""
    assert isinstance(image, WebPImagePlugin.WebPImageFile)
    if prefix[12:16] == b"VP8X" and prefix[_WEBP_FLAGS] & _WEBP_ANIMATED:
        image._mode = image.rawmode = "RGBA"
    return image


def _remedy_png(image: ImageFile.ImageFile, file: IO[bytes], prefix: bytes) -> Image.Image:
    """Tell a clear colour of 16 bits by all of them: Pillow compares it with their upper halves."""
    clear = image.info.get("transparency")
    if not isinstance(clear, tuple) or image.tile[0].args != "RGB;16B":
        return image
    file.seek(0)
    lower = PngImagePlugin.PngImageFile(file)
    lower.tile = [lower.tile[0]._replace(args="RGB;16L")]
    low = np.array(lower)
    file.seek(0)
    high = np.array(PngImagePlugin.PngImageFile(file))
    key_high, key_low = np.divmod(clear, 256)
    visible = ((high != key_high) | (low != key_low)).any(axis=2)
    made = Image.fromarray(np.dstack([high, visible.astype(np.uint8) * 255]))
    made.info = {name: value for name, value in lower.info.items() if name != "transparency"}
    return made


def _remedy_bmp(image: ImageFile.ImageFile, file: IO[bytes], prefix: bytes) -> Image.Image:
    """Read indices into a grey palette as what they are: Pillow takes them for grey, whatever their bits."""
    tile = image.tile[0]
    (header,) = struct.unpack_from("<I", prefix, 14)
    (bits,) = struct.unpack_from("<H", prefix, 24 if header == 12 else 28)
    if image.mode not in ("1", "L") or bits == (1 if image.mode == "1" else 8):
        return image
    levels = (0, 255) if image.mode == "1" else range(256)
    image.palette = ImagePalette.raw("RGB", bytes(level for level in levels for _ in "RGB"))
    image.tile = [tile._replace(args=("P" if bits == 8 else f"P;{bits}", *tuple(tile.args or ())[1:]))]
    image._mode = "P"
    return image


_REMEDIES = {"TIFF": _remedy_tiff, "WEBP": _remedy_webp, "PNG": _remedy_png, "BMP": _remedy_bmp}
