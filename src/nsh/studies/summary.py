"""Results of several seeds as one figure with its spread, and whether two methods differ. Knows no file, no words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nsh.core.metrics import Difference, bootstrap_interval, paired_difference
from nsh.studies.trials import Result


@dataclass(frozen=True)
class Summary:
    """One method at one code length, over the seeds that were measured."""

    results: Sequence[Result]  # one a seed, one or more

    @property
    def seeds(self) -> int:
        """How many there are."""
        return len(self.results)

    def mean(self, name: str) -> float:
        """Of a figure over the seeds."""
        return math.fsum(result.figures[name] for result in self.results) / self.seeds

    def deviation(self, name: str) -> float | None:
        """The sample standard deviation over the seeds, None for a single one."""
        if self.seeds < 2:
            return None
        return float(np.std([result.figures[name] for result in self.results], ddof=1))

    def average_precision(self) -> NDArray[np.float64]:
        """Each query's average precision, mean over the seeds: float64 [queries]."""
        mean: NDArray[np.float64] = np.mean([result.measured.average_precision for result in self.results], axis=0)
        return mean


def difference(first: Summary, second: Summary, *, metric: str) -> Difference:
    """How far `first` is ahead of `second` in `metric`, the mean of the queries' average precision.

    The standard error adds to that over queries what the seeds add, where there are two or more of them:
    se^2 = se_queries^2 + s_first^2 / n_first + s_second^2 / n_second.
    """
    found = paired_difference(first.average_precision(), second.average_precision())
    variances = [(side.deviation(metric) or 0.0) ** 2 / side.seeds for side in (first, second)]
    return replace(found, standard_error=math.sqrt(found.standard_error**2 + sum(variances)))


def interval(first: Summary, second: Summary) -> tuple[float, float]:
    """The 95 % interval of that difference over queries, for these very trainings."""
    return bootstrap_interval(first.average_precision(), second.average_precision(), seed=0)
