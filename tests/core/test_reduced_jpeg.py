"""Large JPEGs are decoded at a half, a quarter or an eighth: which ones, what stays the same, and what counts."""

import io
import struct
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.core.image_files import exif

from nsh.core.limits import MAX_PIXELS
from nsh.core.opening import READERS
from nsh.core.preprocess import load_image, load_input, to_input
from nsh.core.reduced_jpeg import JpegImage
from nsh.errors import UnreadableImage

KINDS = {
    "sequential": {},
    "full chroma": {"subsampling": 0},
    "half chroma": {"subsampling": 1},
    "progressive": {"progressive": True},
    "optimised": {"optimize": True},
}
MODES = ("RGB", "L", "CMYK")


@cache
def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Waves with some noise, as in a photograph."""
    down, across = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(0).normal(0, 6, (height, width, 1))
    waves = [np.sin(across / (40 + 10 * band) + down / (70 - 10 * band)) for band in range(3)]
    pixels = (127 + 90 * np.stack(waves, axis=-1) + noise).clip(0, 255).astype(np.uint8)
    return Image.fromarray(pixels).convert(mode)


def jpeg(image: Image.Image, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()


def pixels(content: bytes, **options) -> np.ndarray:
    return np.asarray(load_image(content, **options)).astype(int)


def hostile(content: bytes, width: int, height: int) -> bytes:
    """The file with another size in its header; libjpeg makes up what is missing."""
    changed = bytearray(content)
    place = max(content.find(b"\xff\xc0"), content.find(b"\xff\xc2"))
    struct.pack_into(">HH", changed, place + 5, height, width)
    return bytes(changed)


def in_three_scans(content: bytes) -> bytes:
    """The header of the first scan lists one component of three; those of other scans would follow."""
    place = content.index(b"\xff\xda")
    return content[:place] + b"\xff\xda\0\x08\x01\x01\0\0\x3f\0" + content[place + 14 :]


def lossless(width: int, height: int, difference: int) -> bytes:
    """A grey lossless JPEG (SOF3) whose rows grow by `difference`, 0 or 1, from left to right."""

    def segment(marker: int, body: bytes) -> bytes:
        return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body

    frame = segment(0xC3, struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0")
    table = segment(0xC4, b"\0" + bytes([1, 1] + [0] * 14) + b"\0\1")  # category 0 is "0", category 1 is "10"
    scan = segment(0xDA, b"\1\1\0\1\0\0")  # predictor 1: the sample on the left
    bits = "".join("0" + ("101" if difference else "0") * (width - 1) for _ in range(height))
    bits += "1" * (-len(bits) % 8)
    data = bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8)).replace(b"\xff", b"\xff\0")
    return b"\xff\xd8" + frame + table + scan + data + b"\xff\xd9"


class TestScale:
    @pytest.mark.parametrize(
        ("width", "height", "size", "expected"),
        [
            (127, 64, 16, (64, 32)),
            (64, 64, 16, (32, 32)),
            (63, 500, 16, (63, 500)),
            (500, 63, 16, (500, 63)),
            (128, 500, 16, (32, 125)),
            (255, 255, 16, (64, 64)),
            (257, 259, 16, (33, 33)),
            (600, 400, 1, (75, 50)),
        ],
    )
    def test_it_is_the_smallest_that_leaves_both_sides_twice_the_size(self, width, height, size, expected):
        for kind in KINDS.values():
            assert load_image(jpeg(Image.new("RGB", (width, height)), **kind), size=size).size == expected

    @settings(max_examples=50, deadline=None)
    @given(
        size=st.integers(1, 20),
        short=st.floats(0, 1, exclude_max=True),
        long=st.integers(0, 40),
        turned=st.booleans(),
        kind=st.sampled_from(sorted(KINDS)),
        mode=st.sampled_from(MODES),
    )
    def test_below_four_times_the_size_no_pixel_changes(self, size, short, long, turned, kind, mode):
        sides = max(1, int(short * 4 * size)), max(1, int(short * 4 * size)) + long
        content = jpeg(picture(*(sides[::-1] if turned else sides), mode), **KINDS[kind])
        assert np.array_equal(pixels(content, size=size), pixels(content))

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("mode", MODES)
    def test_the_input_is_nearly_that_of_all_pixels(self, kind, mode):
        """The largest difference of all is .5; with the padding of the last row and column in it, it is 6."""
        content = jpeg(picture(201, 163, mode), quality=90, **KINDS[kind])
        for size in (10, 20, 40):
            full = to_input(load_image(content), size=size, resample="bilinear").astype(int)
            found = load_input(content, size=size, resample="bilinear").astype(int)
            assert 0 < np.abs(found - full).mean() <= 1

    def test_a_photograph_of_a_phone_takes_a_sixty_fourth_of_the_memory(self):
        content = jpeg(Image.new("RGB", (4000, 3000), "olive"))
        assert load_image(content, size=96).size == (500, 375)
        assert load_image(content, size=224).size == (1000, 750)

    @pytest.mark.parametrize("kind", [kind for kind in READERS if kind != "JPEG"])
    def test_other_formats_keep_their_pixels(self, kind):
        file = io.BytesIO()
        picture(80, 70).save(file, kind)
        assert np.array_equal(pixels(file.getvalue(), size=4), pixels(file.getvalue()))

    @pytest.mark.parametrize("difference", [0, 1])
    def test_a_lossless_jpeg_has_no_smaller_scale(self, difference):
        content = lossless(60, 50, difference)
        expected = np.broadcast_to(128 + difference * np.arange(60)[:, None], (50, 60, 3))
        assert np.array_equal(pixels(content, size=4), expected)

    def test_a_pillow_image_keeps_its_pixels(self):
        image = Image.open(io.BytesIO(jpeg(picture(100, 80))))
        assert load_image(image, size=4).size == (100, 80)
        assert image.size == (100, 80)


class TestRules:
    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_orientation_is_applied_to_the_smaller_image(self, orientation):
        stored = picture(200, 150)
        turned = np.asarray(load_image(jpeg(stored, exif=b"Exif\0\0" + exif(orientation)), size=16))
        flat = np.asarray(load_image(jpeg(stored), size=16))
        upright = {
            1: flat,
            2: flat[:, ::-1],
            3: flat[::-1, ::-1],
            4: flat[::-1],
            5: flat.transpose(1, 0, 2),
            6: np.rot90(flat, -1),
            7: flat[::-1, ::-1].transpose(1, 0, 2),
            8: np.rot90(flat, 1),
        }
        assert np.array_equal(turned, upright[orientation])
        assert max(turned.shape) == 50

    @pytest.mark.parametrize("segment", [b"\xff\xe2\0\x10MPF\0II*\0\xff\xff\xff\xff", b"\xff\xe1\0\x0aExif\0\0II"])
    def test_damaged_metadata_change_nothing(self, segment):
        content = jpeg(picture(200, 150))
        damaged = content[:2] + segment + content[2:]
        assert np.array_equal(pixels(damaged, size=16), pixels(content, size=16))

    @pytest.mark.parametrize("kind", ["sequential", "progressive"])
    def test_a_file_is_readable_at_all_scales_or_at_none(self, kind):
        def is_readable(content: bytes, **options) -> bool:
            try:
                load_image(content, max_pixels=10**6, **options)
            except UnreadableImage:
                return False
            return True

        generator, whole = np.random.default_rng(0), jpeg(picture(120, 100), **KINDS[kind])
        broken = [whole[:kept] for kept in range(0, len(whole), len(whole) // 40)]
        for _ in range(80):
            content = np.frombuffer(whole, np.uint8).copy()
            content[generator.integers(0, len(content), 6)] = generator.integers(0, 256, 6)
            broken.append(content.tobytes())
        verdicts = [[is_readable(content, size=size) for size in (None, 1, 8, 12)] for content in broken]
        assert all(len(set(verdict)) == 1 for verdict in verdicts)
        assert {verdict[0] for verdict in verdicts} == {True, False}


class TestLimit:
    def test_a_sequential_jpeg_counts_as_it_is_decoded(self):
        content = jpeg(Image.new("RGB", (400, 200)))
        assert load_image(content, size=50, max_pixels=20_000).size == (200, 100)
        with pytest.raises(
            UnreadableImage, match="400 x 200, which counts as 20000, is more than the 19999 pixels allowed"
        ):
            load_image(content, size=50, max_pixels=19_999)
        with pytest.raises(UnreadableImage, match="400 x 200 is more than the 79999 pixels allowed"):
            load_image(content, max_pixels=79_999)

    def test_at_least_an_eighth_of_what_is_read_counts(self):
        content = jpeg(Image.new("RGB", (400, 200)))
        assert load_image(content, size=1, max_pixels=10_000).size == (50, 25)
        with pytest.raises(UnreadableImage, match="400 x 200, which counts as 10000,"):
            load_image(content, size=1, max_pixels=9_999)

    @pytest.mark.parametrize("kind", ["progressive", "three scans"])
    def test_all_of_what_libjpeg_holds_counts(self, kind):
        content = jpeg(Image.new("RGB", (400, 200)), progressive=kind == "progressive")
        if kind == "three scans":
            content = in_three_scans(content)
        with pytest.raises(UnreadableImage, match="400 x 200 is more than the 79999 pixels allowed"):
            load_image(content, size=1, max_pixels=79_999)
        assert JpegImage(io.BytesIO(content)).decode_for(1) == 80_000

    def test_a_small_file_of_a_huge_header_is_refused_at_once(self):
        sequential, progressive = (jpeg(Image.new("RGB", (16, 16)), progressive=order) for order in (False, True))
        side = int(MAX_PIXELS**0.5) + 1
        for bomb in (hostile(sequential, 65_500, 65_500), hostile(progressive, side, side)):
            with pytest.raises(UnreadableImage, match=f"more than the {MAX_PIXELS} pixels allowed"):
                load_image(bomb, size=224)

    def test_a_progressive_scan_that_looks_sequential_is_no_way_around_it(self):
        """libjpeg refuses it before it holds anything."""
        bomb = bytearray(hostile(jpeg(Image.new("RGB", (16, 16))), 8000, 8000))
        bomb[bomb.index(b"\xff\xc0") + 1] = 0xC2
        with pytest.raises(UnreadableImage, match="broken data stream"):
            load_image(bytes(bomb), size=64, max_pixels=8_000_000)
