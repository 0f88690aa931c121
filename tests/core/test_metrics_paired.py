import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsh.core.metrics import bootstrap_interval, paired_difference
from nsh.core.metrics.paired import Difference
from nsh.errors import DataError

SHARES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=40)


def draw(count, *, gain=0.0, noise=0.1):
    """Average precisions of two methods that find the same queries hard; the first is `gain` ahead."""
    generator = np.random.default_rng(1)
    hard = generator.beta(2, 3, size=count)
    first, second = (np.clip(hard + generator.normal(0, noise, count), 0, 1) for _ in range(2))
    return first + gain, second


@given(SHARES)
def test_mean_and_error_are_those_of_the_textbook(pairs):
    first, second = np.array(pairs).T
    found = paired_difference(first, second)
    differences = [a - b for a, b in pairs]
    assert found.mean == pytest.approx(statistics.fmean(differences), abs=1e-12)
    expected = statistics.stdev(differences) / math.sqrt(len(pairs))
    assert found.standard_error == pytest.approx(expected, abs=1e-9)


def test_the_interval_is_that_of_a_bootstrap_done_by_hand():
    first, second = draw(37)
    generator, means = np.random.default_rng(5), []
    for _ in range(300):
        rows = [int(row) for row in generator.integers(37, size=37)]
        means.append(math.fsum(first[row] - second[row] for row in rows) / 37)
    means.sort()
    low, high = bootstrap_interval(first, second, seed=5, draws=300)
    # Percentile p of n sorted values lies at place p * (n - 1), between two of them.
    for share, value in ((0.025, low), (0.975, high)):
        place = share * 299
        below, part = means[int(place)], place - int(place)
        assert value == pytest.approx(below + part * (means[int(place) + 1] - below), abs=1e-12)


def test_of_many_queries_the_interval_is_the_normal_one():
    first, second = draw(4000, gain=0.02)
    found, (low, high) = paired_difference(first, second), bootstrap_interval(first, second, seed=0)
    assert low == pytest.approx(found.mean - 1.96 * found.standard_error, abs=0.2 * found.standard_error)
    assert high == pytest.approx(found.mean + 1.96 * found.standard_error, abs=0.2 * found.standard_error)


def test_pairing_sees_what_two_separate_spreads_would_hide():
    first, second = draw(400, gain=0.02, noise=0.02)
    apart = math.hypot(*(values.std(ddof=1) / math.sqrt(400) for values in (first, second)))
    found = paired_difference(first, second)
    assert not found.is_tie
    assert found.mean < 2 * apart


@pytest.mark.parametrize(
    ("mean", "error", "tie"),
    [(0.02, 0.011, True), (0.02, 0.01, False), (-0.02, 0.011, True), (-0.02, 0.009, False), (0.0, 0.0, True)],
)
def test_less_than_two_standard_errors_is_a_tie(mean, error, tie):
    assert Difference(mean, error).is_tie is tie


def test_exchanged_methods_change_the_sign_and_no_more():
    first, second = draw(50, gain=0.05)
    there, back = paired_difference(first, second), paired_difference(second, first)
    assert (there.mean, there.standard_error) == (-back.mean, back.standard_error)
    low, high = bootstrap_interval(first, second, seed=3)
    assert bootstrap_interval(second, first, seed=3) == pytest.approx((-high, -low))


def test_the_same_seed_gives_the_same_interval():
    assert bootstrap_interval(*draw(50), seed=3) == bootstrap_interval(*draw(50), seed=3)
    assert bootstrap_interval(*draw(50), seed=3) != bootstrap_interval(*draw(50), seed=4)


@pytest.mark.parametrize("compare", [paired_difference, lambda *sides: bootstrap_interval(*sides, seed=0)])
@pytest.mark.parametrize("counts", [(3, 4), (1, 1), (0, 0)])
def test_other_or_too_few_queries_are_refused(compare, counts):
    with pytest.raises(DataError, match="needs two or more queries, the same by both"):
        compare(*(np.zeros(count) for count in counts))
