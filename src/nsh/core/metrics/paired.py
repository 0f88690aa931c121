"""Whether one method ranks better than another on the same queries. Knows nothing of codes, seeds of training or files.

Hard queries are hard for both methods, so the figures of a query are compared as a pair, and the uncertainty is that of
the mean difference. It covers the choice of queries, not another training.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nsh.errors import DataError

DRAWS = 2_000
TIE = 2.0  # standard errors below which a difference is not significant

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Mean difference of a figure between two methods, first minus second."""

    mean: float
    standard_error: float  # of the mean
    limit: float = TIE  # in standard errors: a smaller difference is a tie

    @property
    def is_tie(self) -> bool:
        """Whether the difference is smaller than `limit` standard errors, or 0."""
        return self.mean == 0 or abs(self.mean) < self.limit * self.standard_error


def paired_difference(first: Floats, second: Floats) -> Difference:
    """Compare two methods query by query.

    Args:
        first: float64 [q], a figure of each query (its average precision), q >= 2.
        second: float64 [q], the figures of the other method for the same queries in the same order.

    Raises:
        DataError: not the same number of queries, or fewer than two.

    Examples:
        >>> found = paired_difference(np.array([1.0, 0.5, 0.5, 0.5]), np.array([0.0, 0.5, 0.5, 0.5]))
        >>> found, found.is_tie
        (Difference(mean=0.25, standard_error=0.25, limit=2.0), True)
    """
    differences = _subtract(first, second)
    return Difference(float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences))))


def bootstrap_interval(first: Floats, second: Floats, *, seed: int, draws: int = DRAWS) -> tuple[float, float]:
    """The 95 % interval of the mean difference: its 2.5 and 97.5 percentiles over queries drawn again.

    The q queries are drawn with replacement, `draws` times (Efron and Tibshirani, "An Introduction to the Bootstrap",
    1993, chapter 13). Arguments and errors as for `paired_difference`; `seed` seeds the draws.

    Examples:
        >>> bootstrap_interval(np.array([0.75, 0.5]), np.array([0.5, 0.25]), seed=0)  # each query gains the same
        (0.25, 0.25)
    """
    differences = _subtract(first, second)
    generator, count = np.random.default_rng(seed), len(differences)
    means = [differences[generator.integers(count, size=count)].mean() for _ in range(draws)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _subtract(first: Floats, second: Floats) -> Floats:
    if first.shape != second.shape or first.ndim != 1 or len(first) < 2:
        raise DataError(
            f"found figures of {list(first.shape)} and {list(second.shape)} queries, a comparison needs two or more "
            "queries, the same by both methods: evaluate both again"
        )
    return first - second
