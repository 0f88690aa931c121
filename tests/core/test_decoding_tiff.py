"""What samples of TIFF mean, against oracles written from its specification; the files are drawn here."""

import io
import zlib

import numpy as np
import pytest
from PIL import Image
from tests.core.image_files import HEIGHT, WIDTH, drawn, flat, packed, tiff
from tests.core.levels import check, grey, over_white, scaled

from nsh.core.preprocess import load_image
from nsh.errors import UnreadableImage


class TestTiff:
    @pytest.mark.parametrize(
        ("order", "bits", "photometric"),
        [(order, bits, photometric) for order in "<>" for bits in (1, 2, 4, 8) for photometric in (0, 1)]
        + [("<", 12, 1), ("<", 16, 0), ("<", 16, 1), (">", 16, 1), ("<", 32, 1)],
    )
    def test_grey_of_every_depth_and_both_whites(self, order, bits, photometric):
        samples = drawn(bits)
        tags = {258: (3, [bits]), 262: (3, [photometric]), 277: (3, [1])}
        rows = packed(flat(samples), bits, order)
        expected = scaled(samples, bits)
        expected = grey(expected if photometric else 255 - expected)
        check(tiff((WIDTH, HEIGHT), tags, [b"".join(rows)], order), expected)

    @pytest.mark.parametrize(("order", "bits"), [(">", 16), ("<", 12), ("<", 32)])
    def test_negatives_that_pillow_does_not_open(self, order, bits):
        samples = drawn(bits)
        tags = {258: (3, [bits]), 262: (3, [0]), 277: (3, [1])}
        content = tiff((WIDTH, HEIGHT), tags, [b"".join(packed(flat(samples), bits, order))], order)
        found = np.asarray(load_image(content)).astype(float)
        assert np.abs(found - grey(255 - scaled(samples, bits))).max() <= 1

    @pytest.mark.parametrize("photometric", [0, 1])
    @pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate"])
    def test_deep_grey_that_is_compressed(self, photometric, compression):
        samples, buffer = drawn(16), io.BytesIO()
        Image.fromarray(samples[..., 0].astype("u2")).save(
            buffer, "TIFF", compression=compression, tiffinfo={262: photometric}
        )
        expected = scaled(samples, 16)
        check(buffer.getvalue(), grey(expected if photometric else 255 - expected))

    @pytest.mark.parametrize("order", ["<", ">"])
    @pytest.mark.parametrize("planar", [1, 2])
    @pytest.mark.parametrize("bits", [8, 16])
    @pytest.mark.parametrize("extra", [None, 0, 1, 2])
    def test_colour_in_one_plane_or_several_with_every_kind_of_extra_sample(self, order, planar, bits, extra):
        samples = drawn(bits, 3 if extra is None else 4)
        if extra == 1:  # premultiplied: no colour is above its alpha
            samples[..., :3] = samples[..., :3] * samples[..., 3:] // (2**bits - 1)
        levels = scaled(samples, bits)
        expected = levels[..., :3]
        if extra == 1:
            expected = expected + 255 - levels[..., 3:]
        elif extra == 2:
            expected = over_white(expected, levels[..., 3:])
        tags = {258: (3, [bits] * samples.shape[2]), 262: (3, [2]), 277: (3, [samples.shape[2]]), 284: (3, [planar])}
        if extra is not None:
            tags[338] = (3, [extra])
        planes = [samples] if planar == 1 else np.split(samples, samples.shape[2], axis=2)
        strips = [b"".join(packed(flat(plane), bits, order)) for plane in planes]
        found = np.asarray(load_image(tiff((WIDTH, HEIGHT), tags, strips, order))).astype(float)
        assert np.abs(found - expected).max() <= (3 if extra else 1)

    @pytest.mark.parametrize("bits", [8, 16])
    @pytest.mark.parametrize("planar", [1, 2])
    def test_inks(self, bits, planar):
        samples = drawn(bits, 4)
        ink = scaled(samples, bits)
        tags = {258: (3, [bits] * 4), 262: (3, [5]), 277: (3, [4]), 284: (3, [planar])}
        planes = [samples] if planar == 1 else np.split(samples, 4, axis=2)
        strips = [b"".join(packed(flat(plane), bits, "<")) for plane in planes]
        expected = (255 - ink[..., :3]) * (255 - ink[..., 3:]) / 255
        found = np.asarray(load_image(tiff((WIDTH, HEIGHT), tags, strips))).astype(float)
        assert np.abs(found - expected).max() <= 2

    @pytest.mark.parametrize("bits", [1, 2, 4, 8])
    def test_palettes(self, bits):
        samples, colours = drawn(bits), np.random.default_rng(1).integers(0, 65_536, (3, 2**bits))
        tags = {258: (3, [bits]), 262: (3, [3]), 277: (3, [1]), 320: (3, colours.ravel().tolist())}
        content = tiff((WIDTH, HEIGHT), tags, [b"".join(packed(flat(samples), bits))])
        check(content, scaled(colours.T, 16)[samples[..., 0]])

    def test_lab(self):
        """CIE 1976 L*a*b* of D50, to sRGB through Bradford's matrix."""
        lab = np.array([[[0, 0, 0], [255, 0, 0], [128, 0, 0], [140, 30, 20], [140, 226, 20], [140, 20, 216]]] * HEIGHT)
        content = tiff((WIDTH, HEIGHT), {258: (3, [8] * 3), 262: (3, [8]), 277: (3, [3])}, [lab.astype("u1").tobytes()])
        light = lab[..., 0] * 100 / 255
        a, b = (np.where(lab[..., place] > 127, lab[..., place] - 256, lab[..., place]) for place in (1, 2))
        root = (light + 16) / 116
        roots = np.stack([root + a / 500, root, root - b / 200], axis=-1)
        xyz = np.where(roots > 6 / 29, roots**3, 3 * (6 / 29) ** 2 * (roots - 4 / 29)) * [0.9642, 1, 0.8249]
        matrix = [
            [3.1338561, -1.6168667, -0.4906146],
            [-0.9787684, 1.9161415, 0.0334540],
            [0.0719453, -0.2289914, 1.4052427],
        ]
        linear = np.clip(xyz @ np.transpose(matrix), 0, 1)
        levels = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055) * 255
        check(content, levels, within=3)

    @pytest.mark.parametrize("sampling", [1, 2])
    @pytest.mark.parametrize("narrow", [False, True])
    def test_luma_and_chroma_with_their_sampling_and_range(self, sampling, narrow):
        """Blocks of sampling x sampling pixels of one colour: luma of each, then one Cb and one Cr."""
        size = 4 * sampling
        blocks = np.random.default_rng(0).integers(60, 200, (4, 4, 3))
        units = b"".join(bytes([y] * sampling**2 + [cb, cr]) for row in blocks for y, cb, cr in row.tolist())
        tags = {258: (3, [8] * 3), 262: (3, [6]), 277: (3, [3]), 530: (3, [sampling] * 2)}
        low, high, chroma = (16, 235, 240) if narrow else (0, 255, 255)
        if narrow:
            tags[532] = (5, [value for level in (16, 235, 128, 240, 128, 240) for value in (level, 1)])
        luma = (blocks[..., 0] - low) * 255 / (high - low)
        blue, red = ((blocks[..., place] - 128) * 127 / (chroma - 128) for place in (1, 2))
        colour = np.stack([luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue], axis=-1)
        expected = np.clip(colour, 0, 255).repeat(sampling, axis=0).repeat(sampling, axis=1)
        found = np.asarray(load_image(tiff((size, size), tags, [units]))).astype(float)
        assert np.abs(found - expected).max() <= 3

    @pytest.mark.parametrize("bits", [8, 16, 32])
    def test_signed_values_are_refused(self, bits):
        tags = {258: (3, [bits]), 262: (3, [1]), 277: (3, [1]), 339: (3, [2])}
        content = tiff((WIDTH, HEIGHT), tags, [bytes(WIDTH * HEIGHT * bits // 8)])
        with pytest.raises(UnreadableImage, match="signed values have no stated black"):
            load_image(content)

    def test_floating_point_values_are_refused(self):
        tags = {258: (3, [32]), 262: (3, [1]), 277: (3, [1]), 339: (3, [3])}
        with pytest.raises(UnreadableImage, match="floating point values have no stated white"):
            load_image(tiff((WIDTH, HEIGHT), tags, [bytes(WIDTH * HEIGHT * 4)]))

    @pytest.mark.parametrize(
        ("photometric", "extra", "said"),
        [
            (1, 1, "alpha in a plane beside one of grey"),
            (1, 2, "alpha in a plane beside one of grey"),
            (3, 1, "unknown pixel mode"),  # by Pillow
            (3, 2, "alpha in a plane beside one of grey or of a palette"),
        ],
    )
    @pytest.mark.parametrize("compression", [1, 8])
    def test_one_colour_and_alpha_in_planes_are_refused(self, photometric, extra, said, compression):
        """Pillow reads them as wholly transparent, which would be white, whatever they show."""
        strips = [bytes([255] * WIDTH * HEIGHT)] * 2
        tags = {258: (3, [8] * 2), 259: (3, [compression]), 262: (3, [photometric]), 277: (3, [2]), 284: (3, [2])}
        tags[338] = (3, [extra])
        if photometric == 3:
            tags[320] = (3, [0] * 768)
        content = tiff((WIDTH, HEIGHT), tags, strips if compression == 1 else list(map(zlib.compress, strips)))
        with pytest.raises(UnreadableImage, match=said):
            load_image(content)
