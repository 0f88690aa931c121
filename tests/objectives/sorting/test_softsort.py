"""Affinity, SoftSort and its compression to distinct levels, against loops from Eqs. 1, 3 and 4."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nsh.objectives.sorting.softsort import affinity, choose, distinct, permutation


def draw_codes(count, bits, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2, (count, bits), generator=generator).double() * 2 - 1


def slow_affinity(first, second):
    """Eq. 3 as one minus the normalised Hamming distance, bit by bit."""
    rows = []
    for query in first.tolist():
        rows.append(
            [1 - sum(a != b for a, b in zip(query, item, strict=True)) / len(query) for item in second.tolist()]
        )
    return torch.tensor(rows, dtype=torch.float64)


def slow_softsort(scores, tau):
    """Eq. 1 entry by entry, sorted from the most similar down."""
    ranked = sorted(scores, reverse=True)
    rows = []
    for value in ranked:
        weights = [math.exp(-abs(value - score) / tau) for score in scores]
        rows.append([weight / sum(weights) for weight in weights])
    return rows


@pytest.mark.parametrize("bits", [1, 7, 12, 64])
def test_affinity_is_one_minus_the_normalised_distance(bits):
    first, second = draw_codes(9, bits, 0), draw_codes(9, bits, 1)
    torch.testing.assert_close(affinity(first, second), slow_affinity(first, second))


@pytest.mark.parametrize("bits", [7, 12, 33])
def test_equal_distances_give_equal_affinities_to_the_last_bit(bits):
    first, second = draw_codes(40, bits, 2).float(), draw_codes(40, bits, 3).float()
    scores = affinity(first, second)
    distances = (first.unsqueeze(1) != second.unsqueeze(0)).sum(2)
    for distance in distances.unique():
        assert len(scores[distances == distance].unique()) == 1


@pytest.mark.parametrize("tau", [0.01, 0.1, 0.5, 32.0])
def test_permutation_equals_the_loop(tau):
    scores = affinity(draw_codes(8, 6, 4), draw_codes(8, 6, 5))
    expected = torch.tensor([slow_softsort(row, tau) for row in scores.tolist()], dtype=torch.float64)
    torch.testing.assert_close(permutation(scores, tau), expected)


def test_t1_rows_sum_to_one_and_the_first_rank_is_the_image_itself():
    codes = draw_codes(20, 32, 6)
    assert len(codes.unique(dim=0)) == 20
    shares = permutation(affinity(codes, codes), 0.05)
    torch.testing.assert_close(shares.sum(dim=2), torch.ones(20, 20, dtype=torch.float64))
    assert shares[:, 0, :].argmax(dim=1).tolist() == list(range(20))


def test_t2_similarity_falls_from_rank_to_rank():
    scores = torch.rand(15, 15, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    favourites = permutation(scores, 0.01).argmax(dim=2)
    along = scores.gather(1, favourites)
    assert bool((along.diff(dim=1) <= 0).all())
    assert bool((along[:, 0] > along[:, -1]).all())


def test_towards_zero_temperature_the_sort_is_hard_and_towards_infinity_uniform():
    scores = torch.tensor([[0.2, 0.9, 0.5], [0.1, 0.2, 0.3], [1.0, 0.5, 0.0]], dtype=torch.float64)
    hard = torch.tensor([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(permutation(scores, 1e-3)[0], hard)
    torch.testing.assert_close(permutation(scores, 1e9), torch.full((3, 3, 3), 1 / 3, dtype=torch.float64))


@settings(max_examples=50, deadline=None)
@given(count=st.integers(1, 12), bits=st.integers(1, 9), seed=st.integers(0, 10_000), tau=st.floats(0.01, 50))
def test_levels_are_the_sorted_scores_and_their_rows_the_permutation(count, bits, seed, tau):
    scores = affinity(draw_codes(count, bits, seed), draw_codes(count, bits, seed + 1))
    levels, level_of_rank = distinct(scores)
    assert levels.shape[1] <= min(count, bits + 1)
    assert torch.equal(levels.gather(1, level_of_rank), scores.sort(dim=1, descending=True).values)
    rows = level_of_rank.unsqueeze(2).expand(-1, -1, count)
    assert torch.equal(choose(levels, scores, tau).gather(1, rows), permutation(scores, tau))


def test_a_level_shares_its_gradient_among_its_ties():
    scores = torch.tensor([[0.5, 0.25, 0.5, 0.5], [1.0, 0.0, 0.0, 1.0]], requires_grad=True)
    levels, _ = distinct(scores)
    levels.backward(torch.tensor([[3.0, 5.0], [2.0, 4.0]]))
    assert scores.grad.tolist() == [[1.0, 5.0, 1.0, 1.0], [1.0, 2.0, 2.0, 1.0]]
