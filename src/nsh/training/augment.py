"""MoCo v2's augmentation (Chen et al., arXiv 2003.04297, section 3; its order and constants), image by image.

Every view has its own generator, seeded with (seed, image, view), so that it can be made again alone, in any order, on
any number of workers. Pillow computes all pixels in 8 bits: after a bicubic crop, floats would leave [0, 1], and colour
jitter would turn them into NaN in about one image of 4,000. Knows no data set, network or file.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter

from nsh.core.preprocess import filter_of

AREA = (0.2, 1.0)
"""Share of the image that a crop covers."""
RATIO = (3 / 4, 4 / 3)
"""Width / height of a crop, uniform in its logarithm."""
JITTER_RATE, BRIGHTNESS, CONTRAST, SATURATION, HUE = 0.8, 0.4, 0.4, 0.4, 0.1
GREY_RATE = 0.2
BLUR_RATE, BLUR_SIGMA = 0.5, (0.1, 2.0)
"""Standard deviation in pixels of the view, whatever its size."""
FLIP_RATE = 0.5

_CROP_TRIES = 10
_TWO_TURNS = [*range(256), *range(256)]


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """The random parameters of one view."""

    box: tuple[int, int, int, int]  # left, upper, right, lower, in pixels of the image
    jitter: tuple[tuple[str, float], ...]  # (operation, amount) in the order of their application; empty: none
    grey: bool
    sigma: float | None  # of the blur, in pixels of the view; None: no blur
    flip: bool


def view_generator(seed: int, *, image: int, view: int) -> Generator:
    """The generator of view number `view` of image number `image`; no two views share one."""
    return np.random.default_rng([seed, image, view])


def augment(image: Image.Image, generator: Generator, *, size: int, resample: str) -> NDArray[np.uint8]:
    """Draw one view of an RGB image, uint8 [size, size, 3] in 0..255, ready for the encoder's graph."""
    return apply(image, draw(generator, image.size), size=size, resample=resample)


def draw(generator: Generator, image_size: tuple[int, int]) -> Augmentation:
    """Draw the parameters of one view of an image of `image_size` = (width, height) pixels."""
    box = _draw_box(generator, image_size)
    jitter = _draw_jitter(generator) if generator.random() < JITTER_RATE else ()
    grey = generator.random() < GREY_RATE
    sigma = generator.uniform(*BLUR_SIGMA) if generator.random() < BLUR_RATE else None
    return Augmentation(box=box, jitter=jitter, grey=grey, sigma=sigma, flip=generator.random() < FLIP_RATE)


def apply(image: Image.Image, drawn: Augmentation, *, size: int, resample: str) -> NDArray[np.uint8]:
    """Make the view with the drawn parameters, uint8 [size, size, 3].

    Raises:
        ConfigError: `resample` is unknown.
    """
    view = _simplify(image.crop(drawn.box).resize((size, size), resample=filter_of(resample)))
    for operation, amount in drawn.jitter:
        view = _JITTERS[operation](view, amount)
    if drawn.grey:
        view = view.convert("L")
    if drawn.sigma is not None:
        view = view.filter(ImageFilter.GaussianBlur(drawn.sigma))
    if drawn.flip:
        view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.array(view.convert("RGB"))


def _simplify(view: Image.Image) -> Image.Image:
    """Keep one channel if all three are equal: the resulting pixels are the same, in a third of the time."""
    red, green, blue = (channel.tobytes() for channel in view.split())
    return view.getchannel(0) if red == green == blue else view


def _draw_box(generator: Generator, image_size: tuple[int, int]) -> tuple[int, int, int, int]:
    """A box of random area and ratio; if none of ten tries fits, the largest allowed box at the centre."""
    width, height = image_size
    for _ in range(_CROP_TRIES):
        area = width * height * generator.uniform(*AREA)
        ratio = math.exp(generator.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            left, upper = int(generator.integers(width - across + 1)), int(generator.integers(height - down + 1))
            return left, upper, left + across, upper + down
    across = min(width, max(1, round(height * RATIO[1])))
    down = min(height, max(1, round(width / RATIO[0])))
    left, upper = (width - across) // 2, (height - down) // 2
    return left, upper, left + across, upper + down


def _draw_jitter(generator: Generator) -> tuple[tuple[str, float], ...]:
    amounts = {
        "brightness": generator.uniform(1 - BRIGHTNESS, 1 + BRIGHTNESS),
        "contrast": generator.uniform(1 - CONTRAST, 1 + CONTRAST),
        "saturation": generator.uniform(1 - SATURATION, 1 + SATURATION),
        "hue": generator.uniform(-HUE, HUE),
    }
    names = list(amounts)
    return tuple((names[place], amounts[names[place]]) for place in generator.permutation(len(names)))


def _saturate(view: Image.Image, amount: float) -> Image.Image:
    return view if view.mode == "L" else ImageEnhance.Color(view).enhance(amount)


def _shift_hue(view: Image.Image, amount: float) -> Image.Image:
    """Turn the hue by `amount` of the full circle, 255 steps of Pillow's HSV, wrapping around as torchvision does."""
    if view.mode == "L":
        return view
    hue, saturation, value = view.convert("HSV").split()
    start = int(amount * 255) % 256
    return Image.merge("HSV", (hue.point(_TWO_TURNS[start : start + 256]), saturation, value)).convert("RGB")


_JITTERS = {
    "brightness": lambda view, amount: ImageEnhance.Brightness(view).enhance(amount),
    "contrast": lambda view, amount: ImageEnhance.Contrast(view).enhance(amount),
    "saturation": _saturate,
    "hue": _shift_hue,
}
