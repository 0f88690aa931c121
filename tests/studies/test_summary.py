import numpy as np
import pytest

from nsh.core.metrics import bootstrap_interval
from nsh.studies.summary import Summary, difference, interval
from nsh.studies.trials import make_trial, read_results, select

METRIC = "mAP_at_1000"


@pytest.fixture
def sides(quick, setting, leave):
    """Two methods with two seeds each."""
    sides = []
    for method in ("itq", "lsh"):
        trials = [make_trial(quick, method, bits=8, seed=seed) for seed in (0, 1)]
        leave(trials)
        sides.append(Summary(select(read_results(setting), trials)))
    return sides


def test_mean_and_deviation_are_over_the_seeds(sides):
    _, lsh = sides
    first, second = (result.figures[METRIC] for result in lsh.results)
    assert first != second
    assert lsh.mean(METRIC) == pytest.approx((first + second) / 2)
    assert lsh.deviation(METRIC) == pytest.approx(abs(first - second) / 2**0.5)
    assert Summary(lsh.results[:1]).deviation(METRIC) is None


def test_a_difference_is_uncertain_by_queries_and_by_seeds(sides):
    itq, lsh = sides
    found = difference(itq, lsh, metric=METRIC)
    assert found.mean == pytest.approx(itq.mean(METRIC) - lsh.mean(METRIC))
    per_query = np.mean([r.measured.average_precision for r in itq.results], axis=0) - lsh.average_precision()
    seeds = sum(side.deviation(METRIC) ** 2 / 2 for side in sides)
    assert found.standard_error == pytest.approx((per_query.var(ddof=1) / 60 + seeds) ** 0.5)


def test_one_seed_leaves_the_queries(sides):
    itq, lsh = (Summary(side.results[:1]) for side in sides)
    per_query = itq.average_precision() - lsh.average_precision()
    assert difference(itq, lsh, metric=METRIC).standard_error == pytest.approx((per_query.var(ddof=1) / 60) ** 0.5)


def test_the_interval_is_over_the_queries(sides):
    expected = bootstrap_interval(*(side.average_precision() for side in sides), seed=0)
    assert interval(*sides) == expected
