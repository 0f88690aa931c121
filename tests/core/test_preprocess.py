"""What an image file becomes before the encoder sees it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from PIL import Image
from tests.core.golden_images import GOLDEN, IMAGES, LOSSY, MADE, encoded

from nsh.core.preprocess import RESAMPLES, load_image, load_input, to_input
from nsh.errors import ConfigError, UnreadableImage


def pixels(source) -> np.ndarray:
    return np.asarray(load_image(source)).astype(int)


def golden(name: str) -> np.ndarray:
    return pixels(GOLDEN / "images" / name)


class TestGolden:
    @pytest.mark.parametrize("resample", RESAMPLES)
    @pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
    def test_the_encoder_gets_the_recorded_pixels(self, path, resample):
        expected = np.load(GOLDEN / "images.npz")[f"{path.name}:{resample}"].astype(int)
        found = load_input(path, size=MADE.SIZE, resample=resample)
        assert found.dtype == np.uint8
        assert found.shape == (MADE.SIZE, MADE.SIZE, 3)
        assert np.abs(found - expected).max() <= (LOSSY if path.suffix == ".jpg" else 0)

    def test_nothing_recorded_is_without_a_file(self):
        recorded = {key.partition(":")[0] for key in np.load(GOLDEN / "images.npz").files}
        assert recorded == {path.name for path in IMAGES}


class TestModes:
    @pytest.mark.parametrize("orientation", MADE.STORED)
    def test_every_exif_orientation_comes_out_upright(self, orientation):
        assert np.abs(golden(f"orientation_{orientation}.jpg") - MADE.picture()).max() <= 6

    def test_orientation_is_not_applied_twice(self):
        once = load_image(GOLDEN / "images" / "orientation_6.jpg")
        assert np.array_equal(np.asarray(load_image(once)), np.asarray(once))

    def test_a_broken_exif_block_counts_as_none(self):
        content = encoded(Image.fromarray(MADE.picture()), "JPEG", exif=b"Exif\x00\x00II*\x00\xff\xff")
        assert load_image(content).size == (MADE.WIDTH, MADE.HEIGHT)

    @pytest.mark.parametrize("name", ["grey16.png", "grey16.tif"])
    def test_sixteen_bits_are_scaled_not_clipped(self, name):
        assert np.array_equal(golden(name), golden("grey.png"))

    @given(st.integers(0, 65_535))
    def test_sixteen_bits_round_to_the_nearest_of_eight(self, value):
        image = Image.fromarray(np.full((2, 2), value, dtype=np.uint16))
        assert pixels(image)[0, 0, 0] == (value * 255 + 32_767) // 65_535
        assert abs(pixels(image)[0, 0, 0] - value / 257) <= 0.5

    def test_a_clear_sixteen_bit_level_becomes_white(self):
        image = Image.fromarray(np.array([[0, 500]], dtype=np.uint16))
        image.info["transparency"] = 0
        assert pixels(image)[0, :, 0].tolist() == [255, 2]

    @pytest.mark.parametrize("name", ["rgba.png", "grey_alpha.png"])
    def test_alpha_is_composited_over_white(self, name):
        colour = MADE.picture() if name == "rgba.png" else np.dstack([MADE.grey()] * 3)
        share = MADE.alpha()[..., None] / 255
        assert np.abs(golden(name) - (colour * share + 255 * (1 - share))).max() <= 1

    def test_a_clear_palette_entry_becomes_white(self):
        with Image.open(GOLDEN / "images" / "palette_clear.png") as image:
            clear = np.asarray(image) == 0
        assert clear.any()
        assert (golden("palette_clear.png")[clear] == 255).all()
        assert np.array_equal(golden("palette_clear.png")[~clear], golden("palette.png")[~clear])

    @pytest.mark.parametrize("name", ["cmyk.jpg", "ycck.jpg"])
    def test_inks_are_not_inverted(self, name):
        inks = MADE.inks().astype(float)
        expected = (255 - inks[..., :3]) * (255 - inks[..., 3:]) / 255
        assert np.abs(golden(name) - expected).max() <= 8

    def test_an_animation_gives_its_first_frame(self):
        assert (golden("animated.gif") == [255, 0, 0]).all()

    def test_one_bit_is_black_and_white(self):
        assert set(np.unique(golden("bilevel.png"))) == {0, 255}

    @pytest.mark.parametrize("mode", ["La", "RGBa", "PA", "YCbCr", "HSV", "I;16B", "RGBX"])
    def test_rarer_modes_become_rgb(self, mode):
        image = Image.new(mode, (3, 2))
        assert load_image(image).mode == "RGB"

    def test_the_source_is_left_as_it_was(self):
        image = Image.fromarray(MADE.picture())
        load_image(image).putpixel((0, 0), (9, 9, 9))
        assert np.array_equal(np.asarray(image), MADE.picture())


class TestSources:
    def test_path_text_bytes_image_and_array_agree(self):
        path = GOLDEN / "images" / "rgb.png"
        for source in (path, str(path), path.read_bytes(), Image.open(path), MADE.picture()):
            assert np.array_equal(pixels(source), MADE.picture())

    @given(
        st_numpy.arrays(
            np.uint8,
            st.one_of(
                st.tuples(st.integers(1, 5), st.integers(1, 5)),
                st.tuples(st.integers(1, 5), st.integers(1, 5), st.just(3)),
            ),
        )
    )
    def test_arrays_keep_their_pixels(self, array):
        expected = np.dstack([array] * 3) if array.ndim == 2 else array
        assert np.array_equal(pixels(array), expected)
        assert np.array_equal(pixels(array[::-1]), expected[::-1])

    def test_an_array_may_carry_alpha(self):
        clear = np.zeros((2, 2, 4), dtype=np.uint8)
        assert (pixels(clear) == 255).all()

    @pytest.mark.parametrize(
        "array",
        [
            np.zeros((4, 4, 3), dtype=np.float32),
            np.zeros((4, 4), dtype=np.uint16),
            np.zeros((4, 4), dtype=bool),
            np.zeros((4, 4, 2), dtype=np.uint8),
            np.zeros((4, 4, 1), dtype=np.uint8),
            np.zeros((1, 4, 4, 3), dtype=np.uint8),
            np.zeros((0, 4), dtype=np.uint8),
            np.zeros(4, dtype=np.uint8),
        ],
        ids=str,
    )
    def test_other_arrays_are_refused_by_shape_and_type(self, array):
        with pytest.raises(UnreadableImage, match=r"found an array .* allowed are uint8"):
            load_image(array)

    @pytest.mark.parametrize("name", ["ünï code/日本 語 .png", "smile 😀.png", "trailing .png ", "new\nline.png"])
    def test_names_are_any_the_file_system_takes(self, tmp_path, name):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((GOLDEN / "images" / "rgb.png").read_bytes())
        assert np.array_equal(pixels(path), MADE.picture())

    def test_nothing_is_written_beside_a_read_only_image(self, tmp_path):
        path = tmp_path / "a.png"
        path.write_bytes((GOLDEN / "images" / "rgb.png").read_bytes())
        tmp_path.chmod(0o500)
        try:
            load_image(path)
        finally:
            tmp_path.chmod(0o700)
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.png"]


class TestInput:
    def test_shrinking_averages_what_it_covers(self):
        board = np.indices((64, 64)).sum(axis=0) % 2 * 255
        for resample in RESAMPLES:
            small = to_input(load_image(board.astype(np.uint8)), size=16, resample=resample)
            assert np.abs(small[4:12, 4:12].astype(int) - 127).max() <= 2

    def test_bicubic_stays_within_bytes(self):
        step = np.zeros((8, 8), dtype=np.uint8)
        step[:, 4:] = 255
        large = to_input(load_image(step), size=96, resample="bicubic").astype(int)
        assert large[:, :40].max() < 128  # an overshoot below 0 that wrapped around would be near 255
        assert large[:, 56:].min() > 128

    def test_the_filter_must_be_known(self):
        with pytest.raises(ConfigError, match="found 'nearest', allowed are bilinear, bicubic, lanczos"):
            to_input(Image.new("RGB", (2, 2)), size=4, resample="nearest")
