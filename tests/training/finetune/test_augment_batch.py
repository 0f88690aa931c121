"""Each operation on a batch against Pillow's, or a slow one; and that a view depends on its own draw alone."""

import itertools
import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from torchvision.transforms import functional as reference

from nsh.core.preprocess import to_input
from nsh.training.augment import Augmentation, apply
from nsh.training.finetune import augment_batch
from nsh.training.finetune.augment_batch import augment
from nsh.training.finetune.augmentations import NONE, OPERATIONS, Augmentations, draw_views

SIZE = 24
WHOLE = (0.0, 0.0, 1.0, 1.0)


def make_squares(count=6, side=28, seed=0):
    """Smooth images with edges, uint8 [count, side, side, 3]."""
    small = np.random.default_rng(seed).integers(0, 256, (count, 7, 7, 3), dtype=np.uint8)
    images = [Image.fromarray(one).resize((side, side), Image.Resampling.BICUBIC) for one in small]
    return np.stack([np.asarray(image) for image in images])


SQUARES = make_squares()


def make_draws(*views):
    """Of each view its box and its steps, {operation: amount} in their order."""
    steps, amounts = np.full((len(views), 6), NONE, np.int8), np.zeros((len(views), 6), np.float32)
    for row, (_, changes) in enumerate(views):
        for place, (name, amount) in enumerate(changes.items()):
            steps[row, place] = OPERATIONS.index(name)
            amounts[row, OPERATIONS.index(name)] = amount
    return Augmentations(boxes=np.array([box for box, _ in views], np.float32), steps=steps, amounts=amounts)


def view(squares, drawn, size=SIZE):
    found = augment(torch.from_numpy(squares), drawn, size=size)
    assert found.dtype == torch.uint8
    assert found.shape == (len(squares), size, size, 3)
    assert found.is_contiguous()
    return found.numpy()


def change(name, amount, squares=SQUARES):
    """One operation on whole images that keep their size."""
    return view(squares, make_draws(*[(WHOLE, {name: amount})] * len(squares)), size=squares.shape[1])


def differences(found, expected):
    return np.abs(found.astype(int) - np.asarray(expected).astype(int))


class TestCrop:
    @pytest.mark.parametrize(("side", "size"), [(28, 24), (28, 28), (7, 24), (32, 96), (255, 223), (40, 20)])
    def test_nothing_drawn_is_the_clean_image(self, side, size):
        squares = make_squares(3, side)
        expected = [to_input(Image.fromarray(square), size=size, resample="bilinear") for square in squares]
        found = view(squares, make_draws(*[(WHOLE, {})] * 3), size=size)
        assert differences(found, expected).max() <= 1
        assert differences(found, expected).mean() < 0.005

    @pytest.mark.parametrize(
        "box", [(0.1, 0.2, 0.9, 0.7), (0.0, 0.0, 0.05, 1.0), (0.31, 0.62, 0.73, 0.81), (0.9, 0.9, 1.0, 1.0)]
    )
    @pytest.mark.parametrize(("side", "size"), [(28, 24), (224, 96), (32, 96)])
    def test_any_box_is_resized_as_by_pillow(self, box, side, size):
        """Antialiased where it shrinks, also where it shrinks in one direction and enlarges in the other.

        Weights of 16 and of Pillow's 22 binary places now and then round a value near one half to other bytes.
        """
        squares = make_squares(2, side)
        pixels = tuple(side * edge for edge in box)
        images = [Image.fromarray(square) for square in squares]
        expected = [image.resize((size, size), Image.Resampling.BILINEAR, box=pixels) for image in images]
        found = view(squares, make_draws((box, {}), (box, {})), size=size)
        assert differences(found, np.stack(expected)).max() <= 2
        assert differences(found, np.stack(expected)).mean() < 0.1

    def test_a_small_part_of_a_tiny_image(self):
        found = view(SQUARES[:1, :1, :1], make_draws(((0.0, 0.25, 1.0, 0.5), {})))
        assert (found == SQUARES[0, 0, 0]).all()

    def test_left_beyond_right_is_the_mirror_image(self):
        plain, mirrored = (view(SQUARES[:1], make_draws((box, {}))) for box in [(0.1, 0, 0.6, 1), (0.6, 0, 0.1, 1)])
        assert differences(mirrored, plain[:, :, ::-1]).max() <= 1
        assert differences(mirrored, plain[:, :, ::-1]).mean() < 0.005

    def test_an_image_is_seen_through_its_aspect_ratio(self):
        """The crop of the original and the box of its square show the same, but for the square's pixels."""
        wide = Image.fromarray(make_squares(1, 96)[0]).resize((96, 48), Image.Resampling.BICUBIC)
        square = to_input(wide, size=64, resample="bilinear")[None]
        drawn = Augmentation(box=(12, 6, 60, 42), jitter=(), grey=False, sigma=None, flip=False)
        found = view(square, make_draws(((12 / 96, 6 / 48, 60 / 96, 42 / 48), {})))
        assert differences(found, apply(wide, drawn, size=SIZE, resample="bilinear")).mean() < 2


class TestColours:
    @pytest.mark.parametrize("amount", [0.6, 0.77, 1.0, 1.4])
    @pytest.mark.parametrize("name", ["brightness", "contrast", "saturation"])
    def test_brightness_contrast_and_saturation_are_pillows(self, name, amount):
        expected = [getattr(reference, f"adjust_{name}")(Image.fromarray(square), amount) for square in SQUARES]
        found = differences(change(name, amount), np.stack(expected))
        assert found.max() <= 1
        assert found.mean() < 0.005

    @pytest.mark.parametrize("amount", [-0.1, -0.03, 0.0, 0.1])
    def test_hue_is_turned_as_by_a_loop_over_pixels(self, amount):
        import colorsys

        expected = np.empty_like(SQUARES[:2])
        for place in np.ndindex(SQUARES[:2].shape[:3]):
            hue, saturation, value = colorsys.rgb_to_hsv(*(SQUARES[place] / 255))
            turned = colorsys.hsv_to_rgb((hue + amount) % 1, saturation, value)
            expected[place] = np.floor(255 * np.array(turned) + 0.5)
        assert differences(change("hue", amount, SQUARES[:2]), expected).max() <= 1

    def test_hue_is_pillows_but_for_its_bytes_of_hue_and_saturation(self):
        expected = [reference.adjust_hue(Image.fromarray(square), 0.07) for square in SQUARES]
        assert differences(change("hue", 0.07), np.stack(expected)).mean() < 2.5

    def test_grey_is_pillows(self):
        expected = [reference.to_grayscale(Image.fromarray(square), num_output_channels=3) for square in SQUARES]
        assert np.array_equal(change("grey", 0), np.stack(expected))

    @pytest.mark.parametrize("name", ["brightness", "contrast", "saturation"])
    def test_a_factor_of_one_changes_nothing(self, name):
        assert np.array_equal(change(name, 1.0), SQUARES)

    def test_no_turn_of_the_hue_changes_nothing(self):
        assert np.array_equal(change("hue", 0.0), SQUARES)

    @pytest.mark.parametrize("order", [*itertools.permutations(OPERATIONS[:4])])
    def test_every_order_is_the_one_operation_after_the_other(self, order):
        amounts = {"brightness": 1.3, "contrast": 0.7, "saturation": 1.2, "hue": 0.08}
        changes = {name: amounts[name] for name in order}
        expected = SQUARES
        for name, amount in changes.items():
            expected = change(name, amount, expected)
        found = view(SQUARES, make_draws(*[(WHOLE, changes)] * len(SQUARES)), size=SQUARES.shape[1])
        assert np.array_equal(found, expected)


class TestBlur:
    @pytest.mark.parametrize("sigma", [0.1, 0.5, 1.3, 2.0])
    def test_it_is_a_gaussian_whose_border_goes_on(self, sigma):
        square = SQUARES[0, :12, :12]
        expected = np.empty(square.shape)
        for row, column, channel in np.ndindex(square.shape):
            total = weights = 0.0
            for down, across in itertools.product(range(-12, 13), repeat=2):
                weight = math.exp(-(down**2 + across**2) / (2 * sigma**2))
                total += weight * square[min(max(row + down, 0), 11), min(max(column + across, 0), 11), channel]
                weights += weight
            expected[row, column, channel] = total / weights
        found = change("blur", sigma, square[None])[0]
        assert np.abs(found - expected).max() <= 1.01  # rounded twice

    @pytest.mark.parametrize("sigma", [0.5, 1.3, 2.0])
    def test_it_is_pillows_but_for_its_approximation(self, sigma):
        blurred = [Image.fromarray(square).filter(ImageFilter.GaussianBlur(sigma)) for square in SQUARES]
        found = differences(change("blur", sigma), np.stack(blurred))
        assert found.mean() < 1 < differences(change("blur", sigma), SQUARES).mean()

    def test_each_view_has_its_own(self):
        sigmas = [0.3, 0.9, 1.9]
        found = view(SQUARES[:3], make_draws(*[(WHOLE, {"blur": sigma}) for sigma in sigmas]), size=28)
        for row, sigma in enumerate(sigmas):
            assert np.array_equal(found[row], change("blur", sigma, SQUARES[[row]])[0])


def as_single(drawn, row, width, height):
    """The same decisions in the form that one image after another takes."""
    left, upper, right, lower = drawn.boxes[row] * np.tile((width, height), 2)
    names = [OPERATIONS[number] for number in drawn.steps[row] if number != NONE]
    amounts = dict(zip(OPERATIONS, drawn.amounts[row].tolist(), strict=True))
    box = tuple(round(float(edge)) for edge in (min(left, right), upper, max(left, right), lower))
    return Augmentation(
        box=box,
        jitter=tuple((name, amounts[name]) for name in names if name not in ("grey", "blur")),
        grey="grey" in names,
        sigma=amounts["blur"] if "blur" in names else None,
        flip=bool(left > right),
    )


def test_views_are_those_that_pillow_makes_of_the_same_draws():
    squares = make_squares(40, 32, seed=3)
    drawn = draw_views(np.full((40, 2), 32, np.int32), seed=0, epoch=0, view=0)
    found = view(squares, drawn, size=48)
    for row, square in enumerate(squares):
        expected = apply(Image.fromarray(square), as_single(drawn, row, 32, 32), size=48, resample="bilinear")
        assert differences(found[row], expected).mean() < 3.5


class TestIndependence:
    """A view is the same to the byte wherever and with whatever others it is made."""

    squares = make_squares(20, 40, seed=1)
    drawn = draw_views(np.full((20, 2), 40, np.int32), seed=0, epoch=0, view=0)

    def test_of_the_batch_and_its_order(self):
        whole = view(self.squares, self.drawn)
        for rows in (np.arange(20)[::-1], np.array([3]), np.array([7, 7, 19, 0])):
            assert np.array_equal(view(self.squares[rows], self.drawn.take(rows)), whole[rows])

    @pytest.mark.parametrize("count", [1, 3, 20])
    def test_of_how_many_are_made_at_once(self, count, monkeypatch):
        whole = view(self.squares, self.drawn)
        monkeypatch.setitem(augment_batch.AT_ONCE, "cpu", count)
        assert np.array_equal(view(self.squares, self.drawn), whole)

    def test_of_threads_and_deterministic_kernels(self):
        whole, threads = view(self.squares, self.drawn), torch.get_num_threads()
        try:
            torch.set_num_threads(3)
            torch.use_deterministic_algorithms(True)
            assert np.array_equal(view(self.squares, self.drawn), whole)
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(False)

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    def test_of_the_device(self):
        found = augment(torch.from_numpy(self.squares).cuda(), self.drawn, size=SIZE).cpu().numpy()
        assert differences(found, view(self.squares, self.drawn)).max() <= 1

    def test_the_squares_are_left_alone(self):
        before = self.squares.copy()
        view(self.squares, self.drawn, size=40)
        assert np.array_equal(self.squares, before)


class TestExtremes:
    drawn = draw_views(np.full((60, 2), 16, np.int32), seed=0, epoch=0, view=1)

    def test_a_grey_image_stays_grey(self):
        grey = np.random.default_rng(0).integers(0, 256, (60, 16, 16, 1), dtype=np.uint8).repeat(3, axis=3)
        found = view(grey, self.drawn)
        assert (found == found[..., :1]).all()
        assert found.std() > 30

    def test_black_stays_black(self):
        assert (view(np.zeros((60, 16, 16, 3), np.uint8), self.drawn) == 0).all()

    def test_white_is_made_darker_by_brightness_alone(self):
        found = view(np.full((60, 16, 16, 3), 255, np.uint8), self.drawn)
        assert (found == found[:, :1, :1, :1]).all()
        jittered = self.drawn.steps[:, 0] != NONE
        assert (found[~jittered] == 255).all()
        darker = np.minimum(1, self.drawn.amounts[:, 0]) * 255
        assert np.abs(found[:, 0, 0, 0] - np.where(jittered, np.floor(darker), 255)).max() <= 1

    def test_a_board_of_black_and_white_is_cut_and_not_wrapped(self):
        board = (np.indices((16, 16)).sum(axis=0) % 2 * 255).astype(np.uint8)[None, :, :, None].repeat(3, axis=3)
        found = change("contrast", 1.4, board)
        assert np.array_equal(found, board)
        assert np.array_equal(change("brightness", 1.4, board), board)
