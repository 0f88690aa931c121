"""Selects from the shuffled images: the first ones, or equally many of each class. Knows no parts and no files.

What is taken for a smaller size is also taken for a larger one.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nsh.data.imageset import ImageSet
from nsh.errors import ConfigError

Positions = NDArray[np.int64]
"""Places in `ImageSet.ids`."""

Take = Callable[[ImageSet, Positions, int], Positions]


def take_first(images: ImageSet, shuffled: Positions, size: int) -> Positions:
    """The first `size`, whatever their labels."""
    return shuffled[:size]


def take_per_class(images: ImageSet, shuffled: Positions, size: int) -> Positions:
    """As many of each class, `size` together, in the order of `shuffled`.

    An image of several classes counts for the first of them, in the data set's order, that still lacks images; where
    none does, it is not taken.

    Args:
        images: give classes and labels.
        shuffled: [n], the images to take from.
        size: a multiple of the number of classes.

    Raises:
        ConfigError: nothing is labelled, `size` is no such multiple, or a class has too few images.
    """
    if images.classes is None or images.labels is None:
        raise ConfigError("split.draw: per_class needs labels: set dataset.labels: folder, or draw: uniform")
    share, rest = divmod(size, len(images.classes))
    if rest:
        raise ConfigError(
            f"split.draw: per_class cannot take {size} images evenly from {len(images.classes)} classes: "
            f"ask for a multiple of {len(images.classes)}, or draw: uniform"
        )
    lacking = [share] * len(images.classes)
    taken = []
    for position in shuffled:
        counted = next((row for row in images.labels[position] if lacking[row]), None)
        if counted is not None:
            lacking[counted] -= 1
            taken.append(position)
    _check_filled(images.classes, lacking, share)
    return np.array(taken, dtype=np.int64)


def _check_filled(classes: tuple[str, ...], lacking: list[int], share: int) -> None:
    short = [f"{name} {share - count}" for name, count in zip(classes, lacking, strict=True) if count]
    if short:
        raise ConfigError(
            f"split.draw: per_class asks for {share} images of each class, there are only: {', '.join(short)} (not "
            "counting those that stand for another of their classes): lower the size, or draw: uniform"
        )


TAKES: dict[str, Take] = {"uniform": take_first, "per_class": take_per_class}
"""By the names of split.draw."""
