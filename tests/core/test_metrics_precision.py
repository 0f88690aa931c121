import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score

from nsh.core.metrics.precision import average_precision, expected_average_precision, ratio

rankings = st.integers(1, 12).flatmap(lambda size: arrays(np.bool_, size))


def precision_by_hand(top):
    """Sum of precisions at the relevant ranks, and the number of hits."""
    total, hits = 0.0, 0
    for rank, relevant in enumerate(top, start=1):
        if relevant:
            hits += 1
            total += hits / rank
    return total, hits


def average_by_hand(top):
    total, hits = precision_by_hand(top)
    return total / hits if hits else 0.0


def orders(group):
    """All equally likely arrangements of (size, relevant)."""
    size, relevant = group
    for places in itertools.combinations(range(size), relevant):
        yield [place in places for place in range(size)]


def expected_by_enumeration(groups, k):
    values = [
        average_by_hand([item for part in parts for item in part][:k])
        for parts in itertools.product(*(list(orders(group)) for group in groups))
    ]
    return math.fsum(values) / len(values)


def expected_by_exact_chances(size, relevant, *, taken, start, found, whole):
    """The split group's sum with whole binomials, for one group of `found` hits in `start` ranks before it."""
    value = 0.0
    for x in range(max(0, taken - (size - relevant)), min(relevant, taken) + 1):
        chance = math.comb(relevant, x) * math.comb(size - relevant, taken - x) / math.comb(size, taken)
        inside = math.fsum(
            x / taken * (found + 1 + (i - 1) * ((x - 1) / (taken - 1))) / (start + i) for i in range(1, taken + 1)
        )
        value += chance * (whole + inside) / (found + x) if found + x else 0.0
    return value


def test_one_hit_of_two_scores_one_by_hits_and_a_half_by_min():
    hits, minimum = average_precision(np.array([[True, False]]), np.array([2]))
    assert (hits[0], minimum[0]) == (1.0, 0.5)


def test_min_takes_the_number_of_relevant_items_where_it_is_below_k():
    hits, minimum = average_precision(np.array([[True, False, True]]), np.array([2]))
    assert hits[0] == minimum[0] == pytest.approx((1 + 2 / 3) / 2)


def test_queries_without_a_hit_or_a_relevant_item_count_zero():
    hits, minimum = average_precision(np.zeros((2, 3), bool), np.array([0, 4]))
    assert hits.tolist() == minimum.tolist() == [0.0, 0.0]


@given(rankings, st.integers(0, 20))
def test_average_precision_is_the_loop(top, beyond):
    total, found = precision_by_hand(top)
    relevant = found + beyond
    hits, minimum = average_precision(top[None], np.array([relevant]))
    assert hits[0] == pytest.approx(total / found if found else 0, abs=1e-12)
    assert minimum[0] == pytest.approx(total / min(relevant, len(top)) if relevant else 0, abs=1e-12)


@given(rankings.filter(lambda top: top.any()))
def test_average_precision_is_scikit_learns(top):
    hits, _ = average_precision(top[None], np.array([top.sum()]))
    assert hits[0] == pytest.approx(average_precision_score(top, -np.arange(len(top))), abs=1e-12)


@st.composite
def tied_groups(draw):
    """Up to four groups (size, relevant), some empty, at least one item in all, and a cut at k."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any))
    groups = [(size, draw(st.integers(0, size))) for size in sizes]
    return groups, draw(st.integers(1, sum(sizes)))


@given(st.lists(tied_groups(), min_size=1, max_size=3))
def test_expected_precision_is_the_mean_over_all_orders(cases):
    for groups, k in cases:
        counts, hits = np.array([groups]).transpose(2, 0, 1)
        assert expected_average_precision(counts, hits, k=k)[0] == pytest.approx(
            expected_by_enumeration(groups, k), abs=1e-12
        )


def test_queries_of_one_block_do_not_touch_each_other():
    random = np.random.default_rng(0)
    counts = random.multinomial(300, np.full(17, 1 / 17), size=40)
    hits = random.binomial(counts, 0.3)
    together = expected_average_precision(counts, hits, k=70)
    alone = [expected_average_precision(counts[i : i + 1], hits[i : i + 1], k=70)[0] for i in range(40)]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-13)


def test_without_ties_the_expectation_is_the_thing_itself():
    top = np.random.default_rng(1).random((5, 60)) < 0.3
    expected = expected_average_precision(np.ones((5, 60), int), top.astype(int), k=25)
    np.testing.assert_allclose(expected, average_precision(top[:, :25], top.sum(axis=1))[0], rtol=0, atol=1e-13)


@pytest.mark.parametrize("groups", [[(7, 3), (50, 20), (400, 100)], [(0, 0), (2000, 7)], [(3, 0), (900, 880)]])
def test_expected_precision_agrees_with_random_orders(groups):
    k, draws, random = 60, 4000, np.random.default_rng(2)
    values = []
    for _ in range(draws):
        parts = [random.permutation(np.arange(size) < relevant) for size, relevant in groups]
        values.append(average_by_hand(np.concatenate(parts)[:k].tolist()))
    counts, hits = np.array([groups]).transpose(2, 0, 1)
    error = np.std(values) / math.sqrt(draws)
    assert expected_average_precision(counts, hits, k=k)[0] == pytest.approx(np.mean(values), abs=4 * error)


def test_expected_precision_stays_exact_for_groups_of_thousands():
    size, relevant, taken = 30_000, 3_100, 700
    counts, hits = np.array([[300, size, 19_700]]), np.array([[300, relevant, 1_600]])
    exact = expected_by_exact_chances(size, relevant, taken=taken, start=300, found=300, whole=300.0)
    assert expected_average_precision(counts, hits, k=1000)[0] == pytest.approx(exact, abs=1e-11)


def test_all_items_at_one_distance_is_a_random_ranking():
    assert expected_average_precision(np.array([[4]]), np.array([[4]]), k=2)[0] == 1.0
    assert expected_average_precision(np.array([[4]]), np.array([[0]]), k=2)[0] == 0.0
    assert expected_average_precision(np.array([[2]]), np.array([[1]]), k=2)[0] == pytest.approx(0.75)


def test_ratio_is_zero_over_zero_and_broadcasts():
    result = ratio(np.array([[1, 2], [3, 4]]), np.array([[2], [0]]))
    assert result.tolist() == [[0.5, 1.0], [0.0, 0.0]]
