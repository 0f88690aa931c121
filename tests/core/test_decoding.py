"""What samples mean, against oracles written from the formats' specifications; the files are drawn here."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from tests.core.image_files import HEIGHT, WIDTH, bmp, chunk, drawn, flat, gif, packed, png
from tests.core.levels import check, grey, over_white, scaled

from nsh.core.preprocess import load_image

WHITE = [255, 255, 255]


class TestPng:
    @pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
    @pytest.mark.parametrize("clear", [False, True])
    def test_grey_of_every_depth_with_and_without_a_clear_level(self, bits, clear):
        samples = drawn(bits)
        expected = grey(scaled(samples, bits))
        key = 2**bits - 2 if bits > 1 else 0
        samples[1, 1], expected[1, 1] = key, scaled(np.array(key), bits)
        before = b""
        if clear:
            before = chunk(b"tRNS", struct.pack(">H", key))
            expected[samples[..., 0] == key] = WHITE
        check(png(flat(samples), bits=bits, colour=0, before=before), expected)

    @pytest.mark.parametrize("bits", [1, 2, 4, 8])
    @pytest.mark.parametrize("alpha", [None, [0], [255, 0], [100, 7]])
    def test_palettes_of_every_depth_with_and_without_alpha(self, bits, alpha):
        samples, colours = drawn(bits), np.random.default_rng(1).integers(0, 256, (2**bits, 3))
        before = chunk(b"PLTE", colours.astype(np.uint8).tobytes())
        opacity = np.full(2**bits, 255)
        if alpha is not None:
            before += chunk(b"tRNS", bytes(alpha))
            opacity[: len(alpha)] = alpha
        shown = over_white(colours, opacity[:, None])
        check(png(flat(samples), bits=bits, colour=3, before=before), shown[samples[..., 0]])

    @pytest.mark.parametrize("bits", [8, 16])
    def test_a_clear_colour_is_compared_in_all_its_bits(self, bits):
        samples = drawn(bits, 3)
        key = [0x12, 0x34, 0x56] if bits == 8 else [0x1234, 0x5678, 0x9ABC]
        samples[1, 1], samples[1, 2] = key, [key[0], key[1], key[2] + 1]
        expected = scaled(samples, bits)
        expected[1, 1] = WHITE
        content = png(flat(samples), bits=bits, colour=2, before=chunk(b"tRNS", struct.pack(">3H", *key)))
        found = np.asarray(load_image(content)).astype(float)
        assert np.abs(found - expected).max() <= 1
        opened = np.asarray(load_image(Image.open(io.BytesIO(content))))
        assert (opened[1, 1] == WHITE).all()

    @pytest.mark.parametrize("bits", [8, 16])
    @pytest.mark.parametrize("colour", [2, 4, 6])
    def test_colour_and_alpha(self, bits, colour):
        samples = drawn(bits, {2: 3, 4: 2, 6: 4}[colour])
        levels = scaled(samples, bits)
        expected = levels if colour == 2 else over_white(levels[..., :-1], levels[..., -1:])
        expected = grey(expected) if colour == 4 else expected
        check(png(flat(samples), bits=bits, colour=colour), expected, within=2 if bits == 16 else 1)

    def test_an_animation_whose_first_picture_is_no_frame(self):
        samples = drawn(8, 3)
        before = chunk(b"acTL", struct.pack(">II", 1, 0))
        frame = struct.pack(">5IHHBB", 0, 2, 2, 1, 1, 1, 10, 0, 0)
        pixels = zlib.compress(b"\0" + bytes(6) + b"\0" + bytes(6))
        after = chunk(b"fcTL", frame) + chunk(b"fdAT", struct.pack(">I", 1) + pixels)
        check(png(flat(samples), bits=8, colour=2, before=before, after=after), samples)


class TestCanvas:
    PALETTE = bytes([0, 200, 0, 10, 20, 30, 50, 60, 70, 80, 90, 100])

    @pytest.mark.parametrize("clear", [None, 0, 1])
    @pytest.mark.parametrize("frame", [(0, 0, 6, 5), (2, 1, 3, 2), (0, 0, 1, 1), (1, 1, 9, 9)])
    def test_what_a_gifs_first_frame_leaves_free_is_white(self, frame, clear):
        left, top, width, height = frame
        expected = np.full((max(HEIGHT, top + height), max(WIDTH, left + width), 3), 255)
        if clear != 1:
            expected[top : top + height, left : left + width] = [10, 20, 30]
        check(gif((WIDTH, HEIGHT), frame, self.PALETTE, clear=clear), expected)

    @pytest.mark.parametrize("states_alpha", [False, True])
    def test_what_a_webps_first_frame_leaves_free_is_white(self, states_alpha):
        buffer = io.BytesIO()
        Image.new("RGB", (2, 2), (10, 20, 30)).save(buffer, "WEBP", lossless=True)
        bitstream = buffer.getvalue()[12:]

        def three(value):
            return struct.pack("<I", value)[:3]

        frame = three(1) + three(0) + three(1) + three(1) + three(100) + b"\2" + bitstream  # at (2, 0)
        flags = bytes([0x02 | (0x10 if states_alpha else 0), 0, 0, 0])
        parts = [
            (b"VP8X", flags + three(WIDTH - 1) + three(HEIGHT - 1)),
            (b"ANIM", b"\xff\0\0\xff\0\0"),
            (b"ANMF", frame),
            (b"ANMF", frame),
        ]
        body = b"WEBP" + b"".join(kind + struct.pack("<I", len(data)) + data for kind, data in parts)
        expected = np.full((HEIGHT, WIDTH, 3), 255)
        expected[:2, 2:4] = [10, 20, 30]
        found = np.asarray(load_image(b"RIFF" + struct.pack("<I", len(body)) + body))
        assert np.array_equal(found, expected)


class TestOtherFormats:
    @pytest.mark.parametrize("maxval", [1, 3, 100, 255, 256, 1000, 4095, 65_535])
    @pytest.mark.parametrize("magic", ["P2", "P3", "P5", "P6"])
    def test_netpbm_of_any_largest_value(self, magic, maxval):
        samples = np.random.default_rng(0).integers(0, maxval + 1, (HEIGHT, WIDTH, 1 if magic in ("P2", "P5") else 3))
        samples[0, 0], samples[0, 1] = 0, maxval
        kind = ">u2" if maxval > 255 else "u1"
        plain = " ".join(map(str, samples.ravel().tolist())).encode()
        data = plain if magic in ("P2", "P3") else samples.astype(kind).tobytes()
        expected = samples * 255 / maxval
        content = f"{magic}\n{WIDTH} {HEIGHT}\n{maxval}\n".encode() + data
        check(content, grey(expected) if samples.shape[2] == 1 else expected)

    def test_netpbm_of_one_bit(self):
        samples = drawn(1)
        head = f"\n{WIDTH} {HEIGHT}\n".encode()
        expected = grey(255 - 255 * samples)
        check(b"P4" + head + b"".join(packed(flat(samples), 1)), expected)
        check(b"P1" + head + "".join(map(str, samples.ravel())).encode(), expected)

    @pytest.mark.parametrize("bits", [1, 4, 8])
    @pytest.mark.parametrize("used", [2, 0])
    def test_bmp_with_a_grey_palette_of_every_depth(self, bits, used):
        samples = drawn(1 if used else bits)
        palette = [0, 255] if used else list(range(2**bits)) if bits > 1 else [0, 1]
        content = bmp(packed(flat(samples), bits), width=WIDTH, bits=bits, palette=palette, used=used)
        assert np.array_equal(np.asarray(load_image(content)), grey(np.array(palette)[samples]))

    @pytest.mark.parametrize(
        ("masks", "order"),
        [
            ((0xFF0000, 0xFF00, 0xFF, 0xFF000000), [2, 1, 0, 3]),
            ((0xFF, 0xFF00, 0xFF0000, 0xFF000000), [0, 1, 2, 3]),
        ],
    )
    def test_bmp_with_alpha(self, masks, order):
        samples = drawn(8, 4)
        data = samples[::-1][..., order].astype("u1").tobytes()
        info = struct.pack("<IiiHHIIiiII", 108, WIDTH, HEIGHT, 1, 32, 3, len(data), 0, 0, 0, 0)
        info += struct.pack("<4I", *masks) + bytes(108 - 56)
        content = b"BM" + struct.pack("<IHHI", 14 + len(info) + len(data), 0, 0, 14 + len(info)) + info + data
        check(content, over_white(samples[..., :3], samples[..., 3:]))

    @pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "I;16"])
    def test_jpeg2000(self, mode):
        kind = {"L": (8, 1), "LA": (8, 2), "RGB": (8, 3), "RGBA": (8, 4), "I;16": (16, 1)}[mode]
        samples = drawn(*kind)
        pixels = samples.squeeze().astype("u1" if kind[0] == 8 else "u2")
        buffer = io.BytesIO()
        Image.fromarray(pixels, mode if mode == "LA" else None).save(buffer, "JPEG2000", irreversible=False)
        levels = scaled(samples, kind[0])
        expected = over_white(levels[..., :-1], levels[..., -1:]) if mode.endswith("A") else levels
        check(buffer.getvalue(), expected if expected.shape[2] == 3 else grey(expected))

    @pytest.mark.parametrize("kind", ["WEBP", "AVIF"])
    def test_alpha_of_webp_and_avif(self, kind):
        pixels = np.zeros((16, 16, 4), np.uint8)
        pixels[:, :8] = [200, 100, 50, 255]
        pixels[:, 8:] = [200, 100, 50, 128]
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, kind, quality=100, lossless=True)
        expected = over_white(pixels[..., :3].astype(float), pixels[..., 3:].astype(float))
        check(buffer.getvalue(), expected, within=4)
