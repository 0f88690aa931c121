"""Reads images of a split for the parity check, for calibration and for the cost of precision. Knows no data set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nsh.core.reading import Load, read_inputs
from nsh.export import cost, parity


class Rows(Protocol):
    """A part of a split: ids of n images, and their labels bool [n, classes], None without labels."""

    @property
    def ids(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def labels(self) -> NDArray[np.bool_] | None: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class SplitImages:
    """A split's images.

    Attributes:
        load: from an id to its image.
        size: S, pixels a side.
        resample: name of Pillow's filter.
        parts: "train", "query" and "gallery", shuffled by the split.
    """

    load: Load
    size: int
    resample: str
    parts: Mapping[str, Rows]

    def read(self, ids: Sequence[str]) -> NDArray[np.uint8]:
        """The images of n >= 1 ids, uint8 [n, S, S, 3].

        Raises:
            DataError: an image can no longer be read.
        """
        return read_inputs(self.load, ids, size=self.size, resample=self.resample)

    def read_gate(self) -> NDArray[np.uint8]:
        """The images of the parity check, at most `nsh.export.parity.IMAGES`."""
        return self.read([*self.parts["gallery"].ids, *self.parts["query"].ids][: parity.IMAGES])

    def sample(self, part: str, count: int) -> cost.Sample:
        """The first `count` images of a part, or all if it has fewer, and their labels."""
        labels = self.parts[part].labels
        return cost.Sample(self.read(self.parts[part].ids[:count]), None if labels is None else labels[:count])
