import math

import numpy as np
import pytest
from PIL import Image, ImageFilter
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as reference

from nsh.errors import ConfigError
from nsh.training import augment as augmentation
from nsh.training.augment import Augmentation, apply, augment, draw, view_generator

SIZE = 48
DRAWS = 20_000


@pytest.fixture(scope="module")
def image() -> Image.Image:
    generator = np.random.default_rng(0)
    small = Image.fromarray(generator.integers(0, 256, (12, 9, 3), dtype=np.uint8))
    return small.resize((72, 96), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def draws() -> list[Augmentation]:
    generator = np.random.default_rng(0)
    return [draw(generator, (320, 240)) for _ in range(DRAWS)]


def nothing(image: Image.Image, **changes) -> Augmentation:
    plain = {"box": (0, 0, *image.size), "jitter": (), "grey": False, "sigma": None, "flip": False}
    return Augmentation(**(plain | changes))


def near(found: float, expected: float, spread: float) -> bool:
    """Within five standard errors of the mean of DRAWS draws."""
    return abs(found - expected) < 5 * spread / math.sqrt(DRAWS)


class TestSeeds:
    def test_a_view_can_be_made_again_alone(self, image):
        def make(number: int, view: int) -> np.ndarray:
            return augment(image, view_generator(3, image=number, view=view), size=SIZE, resample="bilinear")

        all_of_them = {(number, view): make(number, view) for number in range(3) for view in range(3)}
        for key in [(2, 1), (0, 0), (1, 2)]:
            assert np.array_equal(make(*key), all_of_them[key])

    def test_no_two_views_are_alike(self, image):
        keys = [(seed, number, view) for seed in range(3) for number in range(3) for view in range(3)]
        made = {
            augment(image, view_generator(s, image=n, view=v), size=SIZE, resample="bilinear").tobytes()
            for s, n, v in keys
        }
        assert len(made) == len(keys)

    def test_a_view_is_ready_for_the_graph(self, image):
        made = augment(image, view_generator(0, image=0, view=0), size=SIZE, resample="bicubic")
        assert made.dtype == np.uint8
        assert made.shape == (SIZE, SIZE, 3)


class TestDraws:
    """Against the list of main_moco.py with --aug-plus; 320 x 240 pixels leave rounding out of the account."""

    def test_crops_cover_the_published_areas(self, draws):
        widths = np.array([drawn.box[2] - drawn.box[0] for drawn in draws])
        heights = np.array([drawn.box[3] - drawn.box[1] for drawn in draws])
        areas, ratios = widths * heights / (320 * 240), widths / heights
        assert 0.19 < areas.min() < 0.21
        assert 0.97 < areas.max() <= 1
        assert 0.74 < ratios.min() < 0.76
        assert 1.32 < ratios.max() < 1.35

    def test_crops_are_distributed_as_torchvisions(self, draws):
        import torch
        from torchvision.transforms import RandomResizedCrop

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            blank = Image.new("L", (320, 240))
            theirs = np.array(
                [RandomResizedCrop.get_params(blank, [0.2, 1.0], [3 / 4, 4 / 3]) for _ in range(DRAWS)], dtype=float
            )
        ours = np.array([(top, left, lower - top, right - left) for left, top, right, lower in (d.box for d in draws)])
        for column in range(4):
            quantiles = [np.quantile(boxes[:, column], np.linspace(0.05, 0.95, 10)) for boxes in (ours, theirs)]
            assert np.abs(quantiles[0] - quantiles[1]).max() < 5

    def test_every_crop_lies_within_the_image(self):
        generator = np.random.default_rng(1)
        for size in [(28, 28), (1, 1), (1, 300), (300, 1), (2, 3), (640, 7)]:
            for _ in range(200):
                left, upper, right, lower = draw(generator, size).box
                assert 0 <= left < right <= size[0]
                assert 0 <= upper < lower <= size[1]

    def test_an_image_too_long_for_any_crop_gives_its_centre(self):
        boxes = {draw(np.random.default_rng(seed), (1000, 10)).box for seed in range(20)}
        assert boxes == {(493, 0, 506, 10)}  # 4/3 of the height, as torchvision's way out

    def test_rates_are_the_published_ones(self, draws):
        assert near(np.mean([bool(d.jitter) for d in draws]), 0.8, 0.4)
        assert near(np.mean([d.grey for d in draws]), 0.2, 0.4)
        assert near(np.mean([d.sigma is not None for d in draws]), 0.5, 0.5)
        assert near(np.mean([d.flip for d in draws]), 0.5, 0.5)

    def test_amounts_fill_the_published_ranges(self, draws):
        drawn = {name: [dict(d.jitter)[name] for d in draws if d.jitter] for name in augmentation._JITTERS}
        sigmas = [d.sigma for d in draws if d.sigma is not None]
        ranges = {"brightness": (0.6, 1.4), "contrast": (0.6, 1.4), "saturation": (0.6, 1.4), "hue": (-0.1, 0.1)}
        for values, (low, high) in [*((drawn[name], ranges[name]) for name in ranges), (sigmas, (0.1, 2.0))]:
            assert low <= min(values) < low + 0.01 * (high - low)
            assert high - 0.01 * (high - low) < max(values) <= high
            assert abs(np.mean(values) - (low + high) / 2) < 0.02 * (high - low)

    def test_jitter_comes_in_every_order_equally_often(self, draws):
        orders = [tuple(name for name, _ in d.jitter) for d in draws if d.jitter]
        counts = [orders.count(order) for order in set(orders)]
        assert len(counts) == 24
        assert max(counts) / min(counts) < 1.5

    def test_decisions_are_independent(self, draws):
        table = np.array([[bool(d.jitter), d.grey, d.sigma is not None, d.flip] for d in draws], dtype=float)
        correlation = np.corrcoef(table.T)
        assert np.abs(correlation - np.eye(4)).max() < 5 / math.sqrt(DRAWS)


class TestOperations:
    """Each against torchvision's function for Pillow images, the published implementation."""

    def check(self, image, changes, expected):
        found = apply(image, nothing(image, **changes), size=SIZE, resample="bilinear")
        assert np.array_equal(found, np.asarray(expected))

    def plain(self, image):
        return reference.resize(image, [SIZE, SIZE], InterpolationMode.BILINEAR)

    def test_nothing_drawn_is_the_clean_image(self, image):
        self.check(image, {}, self.plain(image))

    def test_crop(self, image):
        expected = reference.resized_crop(image, 20, 10, 40, 30, [SIZE, SIZE], InterpolationMode.BILINEAR)
        self.check(image, {"box": (10, 20, 40, 60)}, expected)

    @pytest.mark.parametrize("amount", [0.6, 1.0, 1.4])
    def test_brightness_contrast_and_saturation(self, image, amount):
        for name in ("brightness", "contrast", "saturation"):
            expected = getattr(reference, f"adjust_{name}")(self.plain(image), amount)
            self.check(image, {"jitter": ((name, amount),)}, expected)

    @pytest.mark.parametrize("amount", [-0.1, -0.03, 0.0, 0.1])
    def test_hue(self, image, amount):
        self.check(image, {"jitter": (("hue", amount),)}, reference.adjust_hue(self.plain(image), amount))

    def test_jitter_is_applied_in_the_order_drawn(self, image):
        first = reference.adjust_brightness(reference.adjust_contrast(self.plain(image), 0.7), 1.4)
        self.check(image, {"jitter": (("contrast", 0.7), ("brightness", 1.4))}, first)
        second = reference.adjust_contrast(reference.adjust_brightness(self.plain(image), 1.4), 0.7)
        self.check(image, {"jitter": (("brightness", 1.4), ("contrast", 0.7))}, second)

    def test_grey(self, image):
        self.check(image, {"grey": True}, reference.to_grayscale(self.plain(image), num_output_channels=3))

    def test_blur(self, image):
        self.check(image, {"sigma": 1.3}, self.plain(image).filter(ImageFilter.GaussianBlur(1.3)))

    def test_flip(self, image):
        self.check(image, {"flip": True}, reference.hflip(self.plain(image)))

    def test_all_in_the_published_order(self, image):
        expected = reference.adjust_saturation(reference.adjust_hue(self.plain(image), 0.05), 1.2)
        expected = reference.to_grayscale(expected, num_output_channels=3).filter(ImageFilter.GaussianBlur(0.8))
        changes = {"jitter": (("hue", 0.05), ("saturation", 1.2)), "grey": True, "sigma": 0.8, "flip": True}
        self.check(image, changes, reference.hflip(expected))


class TestGreyImages:
    def test_one_channel_gives_the_pixels_of_three(self, image, monkeypatch):
        grey = image.convert("L").convert("RGB")

        def views() -> list[np.ndarray]:
            return [
                augment(grey, view_generator(0, image=0, view=v), size=SIZE, resample="bilinear") for v in range(60)
            ]

        short = views()
        monkeypatch.setattr(augmentation, "_simplify", lambda view: view)
        assert all(np.array_equal(one, three) for one, three in zip(short, views(), strict=True))

    def test_only_grey_images_are_shortened(self, image):
        assert augmentation._simplify(image).mode == "RGB"
        assert augmentation._simplify(image.convert("L").convert("RGB")).mode == "L"


def test_bicubic_crops_never_leave_the_range_of_bytes():
    board = Image.fromarray((np.indices((32, 32, 3))[:2].sum(axis=0) % 2 * 255).astype(np.uint8))
    drawn = nothing(board, box=(3, 5, 20, 19))
    made = apply(board, drawn, size=96, resample="bicubic")
    corners = made[::95, ::95]
    assert np.isin(made, range(256)).all()
    assert {0, 255} <= set(np.unique(made))  # clamped, not wrapped: both ends are met
    assert corners.shape == (2, 2, 3)


def test_an_unknown_filter_is_refused():
    with pytest.raises(ConfigError, match="found 'cubic'"):
        augment(Image.new("RGB", (8, 8)), view_generator(0, image=0, view=0), size=8, resample="cubic")
