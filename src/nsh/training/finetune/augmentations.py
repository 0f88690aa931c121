"""Random parameters of the augmented views of all images in an epoch, as a few arrays. Knows no pixel.

The distributions and constants are those of `nsh.training.augment.draw`. Each image has its own row in the numbers that
the generator of (seed, epoch, view) gives. A view therefore depends on seed, epoch, view, row and the image's width and
height alone, not on other images, batches, ranks, workers, devices or interruptions.
"""

import math
from dataclasses import dataclass
from itertools import permutations
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nsh.training.augment import (
    AREA,
    BLUR_RATE,
    BLUR_SIGMA,
    BRIGHTNESS,
    CONTRAST,
    FLIP_RATE,
    GREY_RATE,
    HUE,
    JITTER_RATE,
    RATIO,
    SATURATION,
)
from nsh.training.finetune.order import Rows

Floats = NDArray[np.float64]

OPERATIONS = ("brightness", "contrast", "saturation", "hue", "grey", "blur")
JITTERS = 4
"""How many of `OPERATIONS` come first, in a random order; the others follow in the given order."""
NONE = -1
CROP_TRIES = 10

_AMOUNTS = np.array([(1 - width, 1 + width) for width in (BRIGHTNESS, CONTRAST, SATURATION)] + [(-HUE, HUE)])
_LOG_RATIO = math.log(RATIO[0]), math.log(RATIO[1])
_ORDERS = np.array(list(permutations(range(JITTERS))))
_TAG = 6  # separates these generators from others that are seeded with a seed and small numbers
_DECISIONS = 10  # random numbers of an image before those of its crop
_BOX = 4  # random numbers of one try: area, ratio, place across, place down


@dataclass(frozen=True, kw_only=True)
class Augmentations:
    """The parameters of n views.

    Attributes:
        boxes: float32 [n, 4], left, upper, right, lower of a crop as shares of width and height; left is greater than
            right if the view is mirrored.
        steps: int8 [n, 6], places in `OPERATIONS` in the order of application; `NONE`: no operation.
        amounts: float32 [n, 6], the amount of each of `OPERATIONS`: factors; the hue's shift as a share of the circle;
            0 for grey; the blur's standard deviation in pixels of the view.
    """

    boxes: NDArray[np.float32]
    steps: NDArray[np.int8]
    amounts: NDArray[np.float32]

    def take(self, rows: Rows) -> Self:
        """The parameters of the views in `rows`."""
        return type(self)(boxes=self.boxes[rows], steps=self.steps[rows], amounts=self.amounts[rows])

    def join(self, others: Self) -> Self:
        """These views followed by `others`."""
        return type(self)(
            boxes=np.concatenate([self.boxes, others.boxes]),
            steps=np.concatenate([self.steps, others.steps]),
            amounts=np.concatenate([self.amounts, others.amounts]),
        )


def draw_views(sizes: NDArray[np.int32], *, seed: int, epoch: int, view: int) -> Augmentations:
    """Draw view number `view` of every image in epoch number `epoch`; `sizes` [n, 2] are widths and heights."""
    generator = np.random.default_rng([seed, epoch, view, _TAG])
    chance = generator.random((len(sizes), _DECISIONS + _BOX * CROP_TRIES))
    jitter, order, grey, blur, flip, sigma = chance[:, :6].T
    steps = np.full((len(sizes), len(OPERATIONS)), NONE, np.int8)
    jittered = jitter < JITTER_RATE
    steps[jittered, :JITTERS] = _ORDERS[(order[jittered] * len(_ORDERS)).astype(int)]
    steps[grey < GREY_RATE, JITTERS] = OPERATIONS.index("grey")
    steps[blur < BLUR_RATE, JITTERS + 1] = OPERATIONS.index("blur")
    amounts = np.zeros((len(sizes), len(OPERATIONS)), np.float32)
    amounts[:, :JITTERS] = _between((_AMOUNTS[:, 0], _AMOUNTS[:, 1]), chance[:, 6:_DECISIONS])
    amounts[:, OPERATIONS.index("blur")] = _between(BLUR_SIGMA, sigma)
    boxes = _draw_boxes(sizes.astype(np.float64), chance[:, _DECISIONS:])
    mirrored = flip < FLIP_RATE
    boxes[mirrored] = boxes[mirrored][:, [2, 1, 0, 3]]
    return Augmentations(boxes=boxes, steps=steps, amounts=amounts)


def _draw_boxes(sizes: Floats, chance: Floats) -> NDArray[np.float32]:
    """Crops of whole pixels of the originals; if no try fits, the largest allowed crop at the centre."""
    extent = np.stack([np.round(sizes[:, 1] * RATIO[1]), np.round(sizes[:, 0] / RATIO[0])], axis=1)
    extent = np.minimum(sizes, np.maximum(1, extent))
    start = (sizes - extent) // 2
    found = np.zeros(len(sizes), bool)
    for area, ratio, *place in np.split(chance.T, CROP_TRIES):
        area, ratio = sizes.prod(axis=1) * _between(AREA, area), np.exp(_between(_LOG_RATIO, ratio))
        tried = np.round(np.sqrt(np.stack([area * ratio, area / ratio], axis=1)))
        fits = ~found & ((tried > 0) & (tried <= sizes)).all(axis=1)
        extent[fits] = tried[fits]
        start[fits] = np.floor(np.stack(place, axis=1) * (sizes - tried + 1))[fits]
        found |= fits
    return (np.concatenate([start, start + extent], axis=1) / np.tile(sizes, 2)).astype(np.float32)


def _between(ends: tuple[Floats, Floats] | tuple[float, float], chance: Floats) -> Floats:
    return ends[0] + (ends[1] - ends[0]) * chance
