from dataclasses import dataclass

import numpy as np
import pytest

from nsh.core.metrics import bootstrap_interval
from nsh.reports.summary import Summary, can_compare, compare_with_rivals, difference, find_best, interval

METRIC = "mAP_at_1000"


@pytest.fixture
def sides(measure):
    """Two methods with two seeds each."""
    return [
        Summary([measure(method, 16, value + gain) for gain in (0, 0.125)])
        for method, value in (("nsh", 0.625), ("itq", 0.5))
    ]


def test_mean_and_deviation_are_over_the_seeds(sides):
    _, itq = sides
    first, second = (result.metrics[METRIC] for result in itq.results)
    assert first != second
    assert itq.mean(METRIC) == pytest.approx((first + second) / 2)
    assert itq.deviation(METRIC) == pytest.approx(abs(first - second) / 2**0.5)
    assert Summary(itq.results[:1]).deviation(METRIC) is None


def test_a_difference_is_uncertain_by_queries_and_by_seeds(sides):
    nsh, itq = sides
    found = difference(nsh, itq, metric=METRIC)
    assert found.mean == pytest.approx(nsh.mean(METRIC) - itq.mean(METRIC))
    per_query = np.mean([r.average_precision for r in nsh.results], axis=0) - itq.average_precision()
    seeds = sum(side.deviation(METRIC) ** 2 / 2 for side in sides)
    assert found.standard_error == pytest.approx((per_query.var(ddof=1) / 400 + seeds) ** 0.5)


@dataclass
class Even:
    """A training whose queries all have the same average precision."""

    value: float

    @property
    def metrics(self) -> dict[str, float]:
        return {METRIC: self.value}

    @property
    def average_precision(self) -> np.ndarray:
        return np.full(400, self.value)


def test_a_few_seeds_have_the_limit_of_student_and_not_of_gauss():
    one, other = (Summary([Even(value), Even(value + 0.25)]) for value in (0.25, 1.0))
    found = difference(other, one, metric=METRIC)
    assert found.limit == pytest.approx(4.3027, abs=1e-4)  # of two degrees of freedom, from a printed table
    assert found.mean > 2 * found.standard_error
    assert found.is_tie


def test_one_seed_leaves_the_queries(sides):
    nsh, itq = (Summary(side.results[:1]) for side in sides)
    per_query = nsh.average_precision() - itq.average_precision()
    assert difference(nsh, itq, metric=METRIC).standard_error == pytest.approx((per_query.var(ddof=1) / 400) ** 0.5)


def test_the_interval_is_over_the_queries(sides):
    queries = [side.average_precision() for side in sides]
    drawn = bootstrap_interval(*queries, seed=0)
    rounded = sides[0].mean(METRIC) - sides[1].mean(METRIC) - (queries[0] - queries[1]).mean()
    assert interval(*sides, metric=METRIC) == pytest.approx([bound + rounded for bound in drawn])


class Forgotten(Even):
    """A training whose queries' average precisions were not kept."""

    @property
    def average_precision(self) -> np.ndarray:
        return np.empty(0)


def test_a_training_without_its_queries_counts_in_the_mean_and_leaves_the_others_to_say_how_sure_it_is(sides, measure):
    nsh, itq = sides
    mixed = Summary([*nsh.results, Forgotten(0.75)])
    assert can_compare(mixed, itq)
    assert not can_compare(Summary([Forgotten(0.5)]), itq)
    assert not can_compare(itq, Summary([Forgotten(0.5)]))
    found, of_two = difference(mixed, itq, metric=METRIC), interval(nsh, itq, metric=METRIC)
    assert found.mean == pytest.approx(mixed.mean(METRIC) - itq.mean(METRIC))
    more = mixed.mean(METRIC) - nsh.mean(METRIC)
    assert interval(mixed, itq, metric=METRIC) == pytest.approx([bound + more for bound in of_two])
    summaries = {("nsh", 16): Summary([Forgotten(0.75)]), ("itq", 16): itq}
    assert compare_with_rivals(summaries, metric=METRIC) == []


def test_the_best_of_a_length_and_how_far_nsh_is_ahead(measure):
    values = {("nsh", 16): 0.5, ("nsh_plus", 16): 0.625, ("itq", 16): 0.375, ("lsh", 16): 0.25, ("itq", 32): 0.5}
    summaries = {(method, bits): Summary([measure(method, bits, value)]) for (method, bits), value in values.items()}
    assert find_best(summaries, 16, metric=METRIC) == "nsh_plus"
    assert find_best(summaries, 16, metric=METRIC, among=lambda method: method != "nsh_plus") == "nsh"
    assert find_best(summaries, 64, metric=METRIC) is None
    (line,) = compare_with_rivals(summaries, metric=METRIC)  # at 32 bits there is no NSH
    assert line.startswith("- 16 bits: nsh_plus − itq = +0.25")
