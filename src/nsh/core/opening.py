"""Opens an image file with one of Pillow's readers, without decoding it, and corrects what that reader misreads.

Readers are called directly and not through `Image.open`, for three reasons. Its limit on pixels is for the whole
process, ours for a call. Its JPEG reader fails at a damaged index of further images. And some readers misread samples
without an error. Knows nothing of the meaning of samples.
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
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from nsh.core.reduced_jpeg import JpegImage
from nsh.errors import UnreadableImage

_PREFIX = 32  # bytes that have the format's magic, and the flags of a WebP
_WEBP_FLAGS, _WEBP_ANIMATED = 20, 2
WHITE_IS_ZERO, _BLACK_IS_ZERO, _YCBCR = 0, 1, 6  # of TIFF's PhotometricInterpretation
SEPARATE, _ALPHA = 2, 2  # of its PlanarConfiguration and ExtraSamples
_JFIF_COEFFICIENTS, _JFIF_RANGE = (0.299, 0.587, 0.114), (0, 255, 128, 255, 128, 255)
_YCBCR_TAGS: dict[int, tuple[tuple[float, ...], tuple[float, ...]]] = {
    529: (_JFIF_COEFFICIENTS, _JFIF_COEFFICIENTS),  # YCbCrCoefficients
    TiffImagePlugin.YCBCRSUBSAMPLING: ((2, 2), (1, 1)),
    TiffImagePlugin.REFERENCEBLACKWHITE: (_JFIF_RANGE, _JFIF_RANGE),
}
"""For each tag, the default of TIFF 6.0, and the value that Pillow assumes."""


def is_misread(tags: TiffImagePlugin.ImageFileDirectory_v2) -> bool:
    """Whether Pillow's own reader would misread uncompressed samples of a TIFF with these tags.

    It reads planes of 16 bits as planes of 8, subsampled chroma as full chroma, and every YCbCr as JFIF's. In planes it
    supports no extra sample except plain alpha.

    Examples:
        >>> tags = TiffImagePlugin.ImageFileDirectory_v2()
        >>> tags[TiffImagePlugin.BITSPERSAMPLE] = (16, 16, 16)
        >>> is_misread(tags)
        False
        >>> tags[TiffImagePlugin.PLANAR_CONFIGURATION] = 2  # a plane for each channel
        >>> is_misread(tags)
        True
    """
    separate = tags.get(TiffImagePlugin.PLANAR_CONFIGURATION) == SEPARATE
    if tags.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION) == _YCBCR:
        return separate or any(tags.get(tag, stated) != jfif for tag, (stated, jfif) in _YCBCR_TAGS.items())
    deep = max(tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,))) > 8
    return separate and (deep or any(kind != _ALPHA for kind in tags.get(TiffImagePlugin.EXTRASAMPLES, ())))


class _TiffImage(TiffImagePlugin.TiffImageFile):
    """Reads with libtiff what Pillow's own reader of uncompressed samples would misread; supports more negatives."""

    def _setup(self) -> None:
        """Let Pillow read deep negatives as positives: it supports few and inverts none, and `to_rgb` inverts them."""
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
    "JPEG": JpegImage,
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


def open_image(file: IO[bytes], *, size: int | None = None, max_pixels: int) -> Image.Image:
    """Open the image in `file`, which must stay open until the image is decoded.

    Args:
        file: the image, from its beginning.
        size: a JPEG will be decoded at the scale for this size (`nsh.core.reduced_jpeg`); None: with all its pixels.
        max_pixels: the limit, of a JPEG after this scale.

    Raises:
        UnreadableImage: the format is not known, or the image is larger than `max_pixels`.
        Exception: Pillow's readers raise nearly every built-in exception on a broken file.

    Examples:
        >>> import io
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (4, 3)).save(file, "png")
        >>> _ = file.seek(0)
        >>> open_image(file, max_pixels=100).size
        (4, 3)
    """
    prefix = file.read(_PREFIX).ljust(_PREFIX, b"\0")  # some of Pillow's checks fail on fewer bytes
    for name, reader in READERS.items():
        accept = Image.OPEN[name][1]
        if accept is None or accept(prefix) is True:
            file.seek(0)
            image = reader(file)
            stored, counted = image.size, None
            if size and isinstance(image, JpegImage):
                counted = image.decode_for(size)
            check_size(stored, counted=counted, max_pixels=max_pixels)
            return _REMEDIES.get(name, _as_it_is)(image, file, prefix)
    raise UnreadableImage(f"not an image in any of the formats {', '.join(READERS)}")


def check_size(size: tuple[int, int], *, counted: int | None = None, max_pixels: int) -> None:
    """Compare the pixels of an image of `size` = (width, height), or those `counted` instead, with the limit.

    Raises:
        UnreadableImage: there are more pixels than `max_pixels`, or none.

    Examples:
        >>> check_size((4, 3), max_pixels=12)
        >>> check_size((4, 3), max_pixels=10)
        Traceback (most recent call last):
        nsh.errors.UnreadableImage: 4 x 3 is more than the 10 pixels allowed: ...
    """
    width, height = size
    pixels = width * height if counted is None else counted
    if pixels > max_pixels:
        counts = "" if pixels == width * height else f", which counts as {pixels},"
        raise UnreadableImage(
            f"{width} x {height}{counts} is more than the {max_pixels} pixels allowed: make it smaller, or allow more "
            "with --max-pixels"
        )
    if not width * height:
        raise UnreadableImage(f"{width} x {height} has no pixel")


def _as_it_is(image: ImageFile.ImageFile, file: IO[bytes], prefix: bytes) -> Image.Image:
    return image


def _remedy_tiff(image: ImageFile.ImageFile, file: IO[bytes], prefix: bytes) -> Image.Image:
    assert isinstance(image, TiffImagePlugin.TiffImageFile)
    # Pillow would make this canvas itself, but check its own limit on pixels first
    size = image.tag_v2[TiffImagePlugin.IMAGEWIDTH], image.tag_v2[TiffImagePlugin.IMAGELENGTH]
    image.im = Image.new(image.mode, size).im
    return image


def _remedy_webp(image: ImageFile.ImageFile, file: IO[bytes], prefix: bytes) -> Image.Image:
    """Request alpha of an animation: the canvas outside the first frame is transparent, even in files without alpha."""
    assert isinstance(image, WebPImagePlugin.WebPImageFile)
    if prefix[12:16] == b"VP8X" and prefix[_WEBP_FLAGS] & _WEBP_ANIMATED:
        image._mode = image.rawmode = "RGBA"
    return image


def _remedy_png(image: ImageFile.ImageFile, file: IO[bytes], prefix: bytes) -> Image.Image:
    """Compare a transparent colour of 16 bits with all 16 bits of the pixels: Pillow compares with the upper 8 bits."""
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
    """Read indices into a grey palette as indices: Pillow reads them as grey values, whatever their bits."""
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
