"""How much better one encoder ranks than another on the same queries."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nsh.core.metrics import bootstrap_interval, paired_difference


@dataclass(frozen=True)
class Gain:
    """The mean over the queries of the difference in average precision, and its 95 % interval.

    Attributes:
        mean: first minus second.
        low: lower end of the interval.
        high: its upper end.
        queries: how many there are.
    """

    mean: float
    low: float
    high: float
    queries: int

    def __str__(self) -> str:
        return f"{self.mean:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"


def measure_gain(first: NDArray[np.float64], second: NDArray[np.float64]) -> Gain | None:
    """Compare average precisions, float64 [q] each, query by query.

    Returns:
        None if the queries cannot be the same, or are fewer than two, as without labels.
    """
    if first.shape != second.shape or len(first) < 2:
        return None
    low, high = bootstrap_interval(first, second, seed=0)
    return Gain(paired_difference(first, second).mean, low, high, len(first))
