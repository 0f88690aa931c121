"""NT-Xent against a loop over Eq. 1 of SimCLR, and where its value is known."""

import math

import pytest
import torch

from nsh.objectives.contrast import ntxent


def slow_ntxent(first, second, temperature):
    """-log(e^(s_ij / t) / sum over k != i of e^(s_ik / t)), both ways round, mean over all 2n vectors."""
    vectors = [*first.tolist(), *second.tolist()]
    count = len(first)

    def score(a, b):
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        return math.exp(dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b)) / temperature)

    losses = []
    for i, anchor in enumerate(vectors):
        others = sum(score(anchor, other) for k, other in enumerate(vectors) if k != i)
        losses.append(-math.log(score(anchor, vectors[(i + count) % (2 * count)]) / others))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_ntxent_equals_the_loop(count, temperature):
    generator = torch.Generator().manual_seed(count)
    first, second = (torch.randn(count, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    assert ntxent(first, second, temperature=temperature).item() == pytest.approx(
        slow_ntxent(first, second, temperature)
    )


def test_equal_vectors_leave_nothing_but_the_number_of_others():
    ones = torch.ones(6, 4)
    assert ntxent(ones, ones, temperature=0.3).item() == pytest.approx(math.log(11))


def test_the_order_of_images_and_of_views_does_not_matter():
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(5, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    order = torch.tensor([3, 1, 4, 0, 2])
    loss = ntxent(first, second, temperature=0.2)
    torch.testing.assert_close(ntxent(second[order], first[order], temperature=0.2), loss)


def test_a_zero_vector_has_a_finite_gradient():
    first = torch.zeros(3, 4, requires_grad=True)
    ntxent(first, torch.ones(3, 4), temperature=0.1).backward()
    assert bool(first.grad.isfinite().all())
