"""Orientation is found, and nothing else beside the pixels decides whether an image is decoded."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from tests.core.image_files import HEIGHT, WIDTH, chunk, drawn, exif, flat, png, tiff

from nsh.core.preprocess import load_image

BIG = 3 << 20  # more than the 1 MiB that Pillow takes of a text or a profile


def picture() -> Image.Image:
    return Image.fromarray(drawn(8, 3).astype(np.uint8).repeat(8, axis=0).repeat(8, axis=1))


def saved(kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    picture().save(buffer, kind, **options)
    return buffer.getvalue()


def with_segment(marker: int, data: bytes) -> bytes:
    content = saved("JPEG")
    return content[:2] + struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data + content[2:]


class TestOrientation:
    @pytest.mark.parametrize("order", ["<", ">"])
    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
    def test_every_format_that_states_one(self, kind, order):
        options = {"lossless": True} if kind == "WEBP" else {}
        content = saved(kind, exif=b"Exif\0\0" + exif(6, order=order), **options)
        upright = np.rot90(np.asarray(load_image(saved(kind, **options))), -1)
        assert np.array_equal(np.asarray(load_image(content)), upright)

    def test_avif_turns_by_its_own_property(self):
        turned = Image.Exif()
        turned[0x0112] = 6
        assert load_image(saved("AVIF", exif=turned)).size == (HEIGHT * 8, WIDTH * 8)


TEXTS = {
    "profile": (b"iCCP", b"name\0\0" + zlib.compress(bytes(BIG))),
    "compressed text": (b"zTXt", b"name\0\0" + zlib.compress(b"a" * BIG)),
    "compressed international text": (b"iTXt", b"name\0\1\0\0\0" + zlib.compress(b"a" * BIG)),
    "plain text": (b"tEXt", b"name\0" + b"a" * BIG),
    "unknown compression": (b"iCCP", b"name\0\7" + zlib.compress(b"a")),
    "short chromaticities": (b"cHRM", b"\0"),
    "short gamma": (b"gAMA", b"\0"),
    "short resolution": (b"pHYs", b"\0"),
    "animation without frames": (b"acTL", bytes(8)),
    "short animation": (b"acTL", b"\0"),
    "frame out of turn": (b"fcTL", struct.pack(">I", 7) + bytes(22)),
}


SEGMENTS = {
    "short JFIF": (0xE0, b"JFIF\0"),
    "short Adobe": (0xEE, b"Adobe"),
    "short profile": (0xE2, b"ICC_PROFILE\0"),
    "cut Photoshop block": (0xED, b"Photoshop 3.0\0" + b"8BIM\4\4"),
    "Photoshop name without end": (0xED, b"Photoshop 3.0\0" + b"8BIM\4\4\xff"),
    "damaged list of pictures": (0xE2, b"MPF\0II*\0\xff\xff\xff\xff"),
    "empty list of pictures": (0xE2, b"MPF\0II*\0\x08\0\0\0\0\0\0\0\0\0"),
    "no EXIF": (0xE1, b"Exif\0\0"),
    "EXIF that is cut": (0xE1, b"Exif\0\0" + exif(1)[:-9]),
    "EXIF that is something else": (0xE1, b"Exif\0\0" + bytes(range(60))),
    "EXIF that points outside": (0xE1, b"Exif\0\0II*\0\xff\xff\xff\x7f"),
    "EXIF with values outside": (
        0xE1,
        b"Exif\0\0II*\0" + struct.pack("<IHHHII", 8, 1, 282, 5, 1, 1 << 30) + bytes(4),
    ),
}


class TestMetadata:
    """Sound pixels are decoded, whatever lies beside them."""

    @pytest.mark.parametrize("after", [False, True], ids=["before the pixels", "after the pixels"])
    @pytest.mark.parametrize("name", TEXTS)
    def test_png_beside_large_or_damaged_chunks(self, name, after):
        samples, extra = drawn(8, 3), chunk(*TEXTS[name])
        content = png(flat(samples), bits=8, colour=2, **{"after" if after else "before": extra})
        assert np.array_equal(np.asarray(load_image(content)), samples)

    def test_png_with_a_wrong_checksum_beside_the_pixels(self):
        samples, extra = drawn(8, 3), bytearray(chunk(b"tEXt", b"name\0text"))
        extra[-1] ^= 1
        assert np.array_equal(
            np.asarray(load_image(png(flat(samples), bits=8, colour=2, before=bytes(extra)))), samples
        )

    def test_png_keeps_its_orientation_beside_a_large_profile(self):
        samples = drawn(8, 3)
        extra = chunk(*TEXTS["profile"]) + chunk(b"eXIf", exif(6))
        found = load_image(png(flat(samples), bits=8, colour=2, before=extra))
        assert np.array_equal(np.asarray(found), np.rot90(samples, -1))

    def test_png_texts_that_unfold_without_end_cost_no_memory(self):
        samples = drawn(8, 3)
        bomb = zlib.compressobj()
        folded = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(200)) + bomb.flush()
        extra = chunk(b"zTXt", b"name\0\0" + folded) * 100
        assert np.array_equal(np.asarray(load_image(png(flat(samples), bits=8, colour=2, before=extra))), samples)

    @pytest.mark.parametrize("name", SEGMENTS)
    def test_jpeg_beside_damaged_segments(self, name):
        expected = load_image(saved("JPEG"))
        assert np.array_equal(np.asarray(load_image(with_segment(*SEGMENTS[name]))), np.asarray(expected))

    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
    def test_an_orientation_is_found_beside_damaged_entries(self, kind):
        entries = struct.pack("<HHII", 282, 5, 1, 1 << 30) + struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)
        block = b"II*\0" + struct.pack("<IH", 8, 2) + entries + bytes(4)
        content = saved(kind, exif=b"Exif\0\0" + block)
        assert load_image(content).size == (HEIGHT * 8, WIDTH * 8)

    @pytest.mark.parametrize(
        "block", [bytes(range(64)), b"II*\0\xff\xff\xff\x7f" + bytes(56)], ids=["noise", "outside"]
    )
    @pytest.mark.parametrize("kind", ["AVIF", "WEBP", "PNG"])
    def test_a_damaged_exif_block(self, kind, block):
        whole = (b"II*\0" + struct.pack("<IH", 8, 0) + bytes(4)).ljust(64, b"\xab")
        content = saved(kind, exif=b"Exif\0\0" + whole)
        assert content.count(whole) == 1
        damaged = content.replace(whole, block)
        if kind == "PNG":
            place = damaged.index(b"eXIf")
            checksum = zlib.crc32(b"eXIf" + block)
            damaged = damaged[: place + 4 + 64] + struct.pack(">I", checksum) + damaged[place + 4 + 64 + 4 :]
        assert np.array_equal(np.asarray(load_image(damaged)), np.asarray(load_image(saved(kind))))

    @pytest.mark.parametrize(
        ("tag", "kind", "values"),
        [(282, 3, [1, 2, 3]), (305, 4, [1 << 30] * 3), (700, 3, [1]), (34_675, 7, [1]), (34_665, 4, [1 << 30])],
    )
    def test_tiff_beside_odd_tags(self, tag, kind, values):
        samples = drawn(8, 3)
        tags = {258: (3, [8] * 3), 262: (3, [2]), 277: (3, [3]), tag: (kind, values)}
        content = tiff((WIDTH, HEIGHT), tags, [samples.astype("u1").tobytes()])
        assert np.array_equal(np.asarray(load_image(content)), samples)
