"""Decisions for all images at once: distributed as those of one image, and each image's own."""

import math
from dataclasses import fields
from itertools import product

import numpy as np
import pytest

from nsh.training import augment as augmentation
from nsh.training.augment import draw
from nsh.training.finetune.augmentations import CROP_TRIES, JITTERS, NONE, OPERATIONS, draw_views

IMAGES = 20_000
SIZE = (320, 240)


@pytest.fixture(scope="module")
def drawn():
    return draw_views(np.tile(np.array(SIZE, np.int32), (IMAGES, 1)), seed=0, epoch=0, view=0)


@pytest.fixture(scope="module")
def boxes(drawn):
    """In pixels, mirrored ones turned round again."""
    left, right = np.sort(drawn.boxes[:, [0, 2]], axis=1).T
    return np.stack([left, drawn.boxes[:, 1], right, drawn.boxes[:, 3]], axis=1) * np.tile(SIZE, 2)


@pytest.fixture(scope="module")
def singles():
    """As many draws of one image after another."""
    generator = np.random.default_rng(1)
    return [draw(generator, SIZE) for _ in range(IMAGES)]


def near(found, expected, spread):
    """Within five standard errors of the mean of IMAGES draws."""
    return abs(found - expected) < 5 * spread / math.sqrt(IMAGES)


def are_equal(first, second):
    return all(np.array_equal(getattr(first, field.name), getattr(second, field.name)) for field in fields(first))


def quantiles(values):
    return np.quantile(values, np.linspace(0.05, 0.95, 10))


def test_crops_are_of_whole_pixels_within_the_image(boxes):
    assert np.abs(boxes - np.round(boxes)).max() < 1e-3
    assert boxes.min() >= 0
    assert (boxes <= np.tile(SIZE, 2)).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()


def test_crops_are_distributed_as_one_by_one(boxes, singles):
    theirs = np.array([single.box for single in singles], dtype=float)
    for column in range(4):
        assert np.abs(quantiles(boxes[:, column]) - quantiles(theirs[:, column])).max() < 5
    (widths, heights), (other_widths, other_heights) = (
        (some[:, 2] - some[:, 0], some[:, 3] - some[:, 1]) for some in (boxes, theirs)
    )
    areas, others = widths * heights / math.prod(SIZE), other_widths * other_heights / math.prod(SIZE)
    assert np.abs(quantiles(areas) - quantiles(others)).max() < 0.02
    assert np.abs(quantiles(widths / heights) - quantiles(other_widths / other_heights)).max() < 0.02
    assert 0.19 < areas.min() < 0.21
    assert 0.97 < areas.max() <= 1


def test_the_tries_are_as_many():
    assert CROP_TRIES == augmentation._CROP_TRIES


@pytest.mark.parametrize("size", [(28, 28), (1, 1), (1, 300), (300, 1), (2, 3), (640, 7)])
def test_crops_of_any_image_are_within_it(size):
    found = draw_views(np.tile(np.array(size, np.int32), (500, 1)), seed=1, epoch=2, view=1).boxes
    left, right = np.sort(found[:, [0, 2]], axis=1).T
    assert (left >= 0).all()
    assert (right <= 1).all()
    assert (right - left >= 1 / size[0] - 1e-6).all()
    assert (found[:, 3] - found[:, 1] >= 1 / size[1] - 1e-6).all()
    assert found[:, 1].min() >= 0
    assert found[:, 3].max() <= 1


def test_an_image_too_long_for_any_crop_gives_its_centre():
    found = draw_views(np.array([[1000, 10], [10, 1000]], np.int32), seed=0, epoch=0, view=0).boxes
    expected = [[493, 0, 506, 10], [0, 493, 10, 506]]
    for box, size, pixels in zip(found, [(1000, 10), (10, 1000)], expected, strict=True):
        assert np.sort(box[[0, 2]] * size[0]) == pytest.approx(pixels[::2], abs=1e-3)
        assert box[[1, 3]] * size[1] == pytest.approx(pixels[1::2], abs=1e-3)


def test_rates_are_the_published_ones(drawn):
    assert near(np.mean(drawn.steps[:, 0] != NONE), augmentation.JITTER_RATE, 0.4)
    assert near(np.mean(drawn.steps[:, JITTERS] != NONE), augmentation.GREY_RATE, 0.4)
    assert near(np.mean(drawn.steps[:, JITTERS + 1] != NONE), augmentation.BLUR_RATE, 0.5)
    assert near(np.mean(drawn.boxes[:, 0] > drawn.boxes[:, 2]), augmentation.FLIP_RATE, 0.5)


def test_steps_are_all_four_changes_of_colour_or_none_then_grey_then_blur(drawn):
    jitters = np.sort(drawn.steps[:, :JITTERS], axis=1)
    assert set(map(tuple, jitters.tolist())) == {(0, 1, 2, 3), (NONE,) * 4}
    assert set(drawn.steps[:, 4].tolist()) == {NONE, OPERATIONS.index("grey")}
    assert set(drawn.steps[:, 5].tolist()) == {NONE, OPERATIONS.index("blur")}
    orders, counts = np.unique(drawn.steps[drawn.steps[:, 0] != NONE, :JITTERS], axis=0, return_counts=True)
    assert len(orders) == 24
    assert counts.max() / counts.min() < 1.5


def test_amounts_fill_the_published_ranges(drawn):
    ranges = {"brightness": (0.6, 1.4), "contrast": (0.6, 1.4), "saturation": (0.6, 1.4), "hue": (-0.1, 0.1)}
    for name, (low, high) in {**ranges, "blur": (0.1, 2.0)}.items():
        values = drawn.amounts[:, OPERATIONS.index(name)]
        assert low - 1e-6 <= values.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < values.max() <= high + 1e-6
        assert abs(values.mean() - (low + high) / 2) < 0.02 * (high - low)


def test_decisions_are_independent(drawn, boxes):
    steps, amounts = drawn.steps, drawn.amounts[:, [0, 1, 2, 3, 5]]
    decided = np.stack([steps[:, 0] != NONE, steps[:, 4] != NONE, steps[:, 5] != NONE], axis=1)
    mirrored = drawn.boxes[:, 0] > drawn.boxes[:, 2]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    table = np.column_stack([decided, mirrored, amounts, area])
    assert np.abs(np.corrcoef(table.T) - np.eye(table.shape[1])).max() < 5 / math.sqrt(IMAGES)


def test_an_images_draws_do_not_depend_on_the_other_images():
    sizes = np.random.default_rng(0).integers(1, 400, (50, 2)).astype(np.int32)
    whole = draw_views(sizes, seed=3, epoch=1, view=1)
    others = sizes.copy()
    others[:20] = 7
    assert are_equal(
        draw_views(others[:30], seed=3, epoch=1, view=1).take(np.arange(20, 30)), whole.take(np.arange(20, 30))
    )


def test_no_two_seeds_epochs_views_or_images_are_alike():
    sizes = np.tile(np.array(SIZE, np.int32), (20, 1))
    keys = product(range(3), repeat=3)
    found = [draw_views(sizes, seed=seed, epoch=epoch, view=view) for seed, epoch, view in keys]
    amounts = np.concatenate([one.amounts[:, 0] for one in found])
    assert len(set(amounts.tolist())) == len(amounts) == 27 * 20


def test_draws_are_taken_and_joined_row_by_row():
    sizes = np.tile(np.array(SIZE, np.int32), (6, 1))
    whole = draw_views(sizes, seed=0, epoch=0, view=0)
    first, second = np.array([4, 1]), np.array([0, 0, 5])
    assert are_equal(whole.take(first).join(whole.take(second)), whole.take(np.concatenate([first, second])))
