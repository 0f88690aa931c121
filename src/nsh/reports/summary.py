"""Figures over several seeds with their spread, which method is ahead, and by how much. Reads and writes no files."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from nsh.core.metrics import Difference, bootstrap_interval, paired_difference
from nsh.reports import paper


class Evaluated(Protocol):
    """What one training of a method is found to be."""

    @property
    def metrics(self) -> Mapping[str, float]: ...  # noqa: D102
    @property
    def average_precision(self) -> NDArray[np.float64]: ...  # noqa: D102


Item = TypeVar("Item", bound=Evaluated)


@dataclass(frozen=True)
class Summary(Generic[Item]):
    """One method at one code length, over the seeds that were measured."""

    results: Sequence[Item]  # one a seed, one or more

    @property
    def seeds(self) -> int:
        """How many there are."""
        return len(self.results)

    def mean(self, name: str) -> float:
        """Of a figure over the seeds."""
        return math.fsum(result.metrics[name] for result in self.results) / self.seeds

    def deviation(self, name: str) -> float | None:
        """The sample standard deviation over the seeds, None for a single one."""
        if self.seeds < 2:
            return None
        return float(np.std([result.metrics[name] for result in self.results], ddof=1))

    def average_precision(self) -> NDArray[np.float64]:
        """Each query's average precision, mean over the seeds that have kept it: float64 [queries], [0] of none."""
        kept = [result.average_precision for result in self.results if len(result.average_precision)]
        mean: NDArray[np.float64] = np.mean(kept, axis=0) if kept else np.empty(0)
        return mean


Summaries = Mapping[tuple[str, int], Summary[Any]]
"""By method and code length."""


def can_compare(first: Summary[Any], second: Summary[Any]) -> bool:
    """Whether both have the average precision of two queries or more, without which no difference has an error."""
    return min(len(first.average_precision()), len(second.average_precision())) > 1


def difference(first: Summary[Any], second: Summary[Any], *, metric: str) -> Difference:
    """How far `first` is ahead of `second` in `metric`, the mean of the queries' average precision.

    Both must be such as `can_compare` is true for. The standard error adds to that over queries what the seeds add,
    where there are two or more of them: se^2 = se_queries^2 + s_first^2 / n_first + s_second^2 / n_second. A difference
    below Student's t at 97.5 % is a tie. The degrees of freedom are those of Welch and Satterthwaite ("An Approximate
    Distribution of Estimates of Variance Components", Biometrics Bulletin 1946): few where three seeds make most of the
    error.
    """
    found = paired_difference(first.average_precision(), second.average_precision())
    parts = [(found.standard_error**2, len(first.average_precision()) - 1)]
    for side in (first, second):
        if (deviation := side.deviation(metric)) is not None:
            parts.append((deviation**2 / side.seeds, side.seeds - 1))
    variance = math.fsum(part for part, _ in parts)
    spread = math.fsum(part**2 / freedom for part, freedom in parts)
    limit = _student_limit(variance**2 / spread) if spread > 0 else found.limit
    mean = first.mean(metric) - second.mean(metric)
    return replace(found, mean=mean, standard_error=math.sqrt(variance), limit=limit)


def _student_limit(freedom: float) -> float:
    """Student's t at 97.5 %."""
    from scipy.special import stdtrit  # a quarter of the time that `nsh registry` and the stages take to start

    return float(stdtrit(freedom, 0.975))


def interval(first: Summary[Any], second: Summary[Any], *, metric: str) -> tuple[float, float]:
    """The 95 % interval of that difference over queries, for these very trainings."""
    sides = first.average_precision(), second.average_precision()
    low, high = bootstrap_interval(*sides, seed=0)
    rest = first.mean(metric) - second.mean(metric) - paired_difference(*sides).mean  # of seeds without their queries
    return low + rest, high + rest


def find_best(
    summaries: Summaries, bits: int, *, metric: str, among: Callable[[str], bool] = lambda method: True
) -> str | None:
    """The method with the highest mean at a code length, `among` those it is true for; None where there is none."""
    there = [method for method, length in summaries if length == bits and among(method)]
    return max(there, key=lambda method: summaries[method, bits].mean(metric), default=None)


def compare_with_rivals(summaries: Summaries, *, metric: str) -> list[str]:
    """A line for each code length: how far NSH's best variant is ahead of its best rival."""
    lines = []
    for bits in sorted({length for _, length in summaries}):
        ours = find_best(summaries, bits, metric=metric, among=paper.is_ours)
        rival = find_best(summaries, bits, metric=metric, among=lambda method: not paper.is_ours(method))
        if ours is None or rival is None:
            continue
        first, second = summaries[ours, bits], summaries[rival, bits]
        if can_compare(first, second):
            found, (low, high) = difference(first, second, metric=metric), interval(first, second, metric=metric)
            tie = ", a tie" if found.is_tie else ""
            lines.append(f"- {bits} bits: {ours} − {rival} = {found.mean:+.4f} [{low:+.4f}, {high:+.4f}]{tie}")
    return lines
