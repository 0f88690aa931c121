"""Checks the sizes of images: those that are far smaller than the others, and those that are far from square.

An encoder squashes every image to a square of its own size (`nsh.core.preprocess`). A small image among larger ones is
enlarged and blurred, a long one is distorted: codes may then tell sizes apart instead of what is shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nsh.audit.finding import Finding, Limit
from nsh.data.imageset import ImageSet
from nsh.system.progress import Progress, no_progress
from nsh.system.threads import map_in_threads

ELONGATED = 3
"""The longer side of a long image is more than so many times the shorter."""

ENLARGED = 2
"""A small image is enlarged by more than this to the encoder's input, or to the median image if that is smaller."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sides of the images of a split, and which are odd.

    Attributes:
        ids: of the n images.
        sides: int64 [n, 2], the shorter and the longer side in pixels.
        image_size: pixels a side of the encoder's input.
    """

    ids: Sequence[str]
    sides: NDArray[np.int64]
    image_size: int

    @property
    def small(self) -> NDArray[np.bool_]:
        """Bool [n], whether an image is much smaller than the input and than the median image."""
        shorter = self.sides[:, 0]
        found: NDArray[np.bool_] = shorter * ENLARGED < min(self.image_size, float(np.median(shorter)))
        return found

    @property
    def elongated(self) -> NDArray[np.bool_]:
        """Bool [n], whether an image is far from square."""
        found: NDArray[np.bool_] = self.sides[:, 1] > ELONGATED * self.sides[:, 0]
        return found

    @property
    def odd(self) -> NDArray[np.int64]:
        """Rows of the images that are small or elongated."""
        return np.flatnonzero(self.small | self.elongated)

    def check(self, limit: Limit) -> Finding:
        """The check `odd_sizes`."""
        value = len(self.odd) / len(self.ids)
        found = (
            f"{len(self.odd)} of {len(self.ids)} images have an odd size, a share of {value:.3g} "
            f"({self.small.sum()} small, {self.elongated.sum()} long)"
        )
        remedy = "leave them out by dataset.exclude, or cut them"
        return Finding(key="audit.odd_sizes", value=value, found=found, remedy=remedy, limit=limit)


def read_sizes(
    images: ImageSet, ids: Sequence[str], *, image_size: int, threads: int = 1, progress: Progress = no_progress
) -> Sizes:
    """Read the sides of the images `ids`, at least one.

    Args:
        images: the data set.
        ids: which of its images.
        image_size: pixels a side of the encoder's input.
        threads: that read; no result depends on it.
        progress: counts images.

    Raises:
        DataError: an image is gone, or has changed since the download stage.
    """
    read = map_in_threads(images.sides, ids, threads=threads)
    sides = list(progress(read, desc="reading sizes", total=len(ids)))
    return Sizes(ids=ids, sides=np.array(sides, np.int64), image_size=image_size)
