"""Removes metadata from image files that Pillow refuses for their metadata alone.

Damaged or very large profiles, texts, EXIF blocks and tags are no reason to lose an image. What decides pixels is kept.
Of the metadata only the orientation in an EXIF block is read.
"""

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_PNG_KEPT = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_EXIF = b"Exif\0\0"
_JPEG_SCAN, _JPEG_EXIF, _JPEG_COMMENT = 0xDA, 0xE1, 0xFE
_JPEG_WHOLE = {0xE0: 16, 0xEE: 14}  # JFIF and Adobe name the colour space, if they are as long as this
_TIFF_ORDERS = {b"II": "<", b"MM": ">"}
_TIFF_KEPT = {256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 284, 292, 293, 317, 320, 322, 323, 324, 325}
_TIFF_KEPT |= {332, 338, 339, 347, 512, 513, 514, 519, 520, 521, 529, 530, 532}
_ORIENTATION, _SHORT = 0x0112, 3


class Bare(NamedTuple):
    """An image file without its metadata, and the EXIF block it had."""

    content: bytes
    exif: bytes | None = None


def without_metadata(content: bytes) -> Bare | None:
    """The image in `content` without metadata; None for other formats and for a broken structure.

    Examples:
        >>> import io
        >>> from PIL import Image, PngImagePlugin
        >>> notes, file = PngImagePlugin.PngInfo(), io.BytesIO()
        >>> notes.add_text("comment", "taken in May")
        >>> Image.new("L", (1, 1)).save(file, "png", pnginfo=notes)
        >>> b"taken in May" in file.getvalue(), b"taken in May" in without_metadata(file.getvalue()).content
        (True, False)
    """
    for place, magic, strip in _STRIPS:
        if content.startswith(magic, place):
            with suppress(struct.error, IndexError, KeyError):
                return strip(content)
    return None


def orientation_of(exif: bytes) -> int:
    """The orientation in the first directory of an EXIF block, even if other parts are damaged; 1 if it has none.

    Examples:
        >>> from PIL import Image
        >>> exif = Image.Exif()
        >>> exif[0x0112] = 6
        >>> orientation_of(exif.tobytes()), orientation_of(b"damaged")
        (6, 1)
    """
    with suppress(struct.error, KeyError):
        block = exif.removeprefix(_EXIF)
        order, start, count = _tiff_directory(block)
        for place in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind, _, value = struct.unpack_from(order + "HHIH", block, place)
            if (tag, kind) == (_ORIENTATION, _SHORT):
                return int(value)
    return 1


def _strip_png(content: bytes) -> Bare:
    kept, exif, place = [_PNG_MAGIC], None, len(_PNG_MAGIC)
    while place + 8 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, place)
        if kind in _PNG_KEPT:
            kept.append(content[place : place + 12 + length])
        elif kind == b"eXIf":
            exif = content[place + 8 : place + 8 + length]
        place += 12 + length
    return Bare(b"".join(kept), exif)


def _strip_jpeg(content: bytes) -> Bare:
    kept, exif, place = [content[:2]], b"", 2
    while content[place + 1] != _JPEG_SCAN:
        if content[place] != 0xFF or content[place + 1] == 0xFF:  # bytes that fill
            place += 1
            continue
        marker, length = struct.unpack_from(">BH", content, place + 1)
        segment = content[place : place + 2 + length]
        if marker == _JPEG_EXIF and segment[4:].startswith(_EXIF):
            exif += segment[4 + len(_EXIF) :]
        is_note = 0xE0 <= marker <= 0xEF or marker == _JPEG_COMMENT
        if not is_note or length >= _JPEG_WHOLE.get(marker, 1 << 16):
            kept.append(segment)
        place += 2 + length
    return Bare(b"".join(kept) + content[place:], exif or None)


def _strip_tiff(content: bytes) -> Bare:
    order, start, count = _tiff_directory(content)
    places = range(start + 2, start + 2 + 12 * count, 12)
    entries = (content[place : place + 12] for place in places)
    kept = [entry for entry in entries if struct.unpack_from(order + "H", entry)[0] in _TIFF_KEPT]
    directory = struct.pack(order + "H", len(kept)) + b"".join(kept) + bytes(4)  # no further image
    return Bare(content[:start] + directory + content[start + len(directory) :])


def _strip_avif(content: bytes) -> Bare:
    return Bare(content.replace(b"Exif", b"free"))  # an item type that decoders skip


def _tiff_directory(content: bytes) -> tuple[str, int, int]:
    """The byte order, where the first directory is, and how many entries it has."""
    order = _TIFF_ORDERS[content[:2]]
    (start,) = struct.unpack_from(order + "I", content, 4)
    (count,) = struct.unpack_from(order + "H", content, start)
    return order, start, count


_STRIPS: tuple[tuple[int, bytes, Callable[[bytes], Bare]], ...] = (
    (0, _PNG_MAGIC, _strip_png),
    (0, b"\xff\xd8", _strip_jpeg),
    (0, b"II*\0", _strip_tiff),
    (0, b"MM\0*", _strip_tiff),
    (4, b"ftyp", _strip_avif),
)
"""The offset of a format's magic bytes, the bytes, and its function."""
