"""The sign that gradients pass, and the quantisation loss, against a loop."""

import math

import pytest
import torch

from nsh.objectives.heads.binary import mean_quantisation, quantisation, sign, squared_quantisation, straight_through


def slow_quantisation(first, second):
    """L_R of section 4.4, entry by entry."""
    norms = []
    for hidden in (first.tolist(), second.tolist()):
        norms.append(math.sqrt(sum((value - (1 if value > 0 else -1)) ** 2 for row in hidden for value in row)))
    return sum(norms) / (2 * len(first))


def test_zero_is_a_zero_bit():
    assert sign(torch.tensor([-2.0, -0.0, 0.0, 1e-30, 3.0])).tolist() == [-1, -1, -1, 1, 1]


def test_straight_through_is_exactly_plus_or_minus_one_and_passes_the_gradient_unchanged():
    hidden = torch.randn(200, generator=torch.Generator().manual_seed(0), requires_grad=True)
    code = straight_through(hidden)
    assert set(code.tolist()) == {-1.0, 1.0}
    weights = torch.arange(200.0)
    (gradient,) = torch.autograd.grad((code * weights).sum(), hidden)
    assert torch.equal(gradient, weights)


def test_quantisation_equals_the_loop():
    generator = torch.Generator().manual_seed(1)
    first, second = (torch.rand(6, 5, generator=generator, dtype=torch.float64) * 2 - 1 for _ in range(2))
    assert quantisation(first, second).item() == pytest.approx(slow_quantisation(first, second))


def test_the_other_quantisations_equal_the_loop():
    generator = torch.Generator().manual_seed(3)
    first, second = (torch.rand(6, 5, generator=generator, dtype=torch.float64) * 2 - 1 for _ in range(2))
    squares = [
        (value - (1 if value > 0 else -1)) ** 2
        for hidden in (first.tolist(), second.tolist())
        for row in hidden
        for value in row
    ]
    assert squared_quantisation(first, second).item() == pytest.approx(sum(squares) / (2 * 6))
    assert mean_quantisation(first, second).item() == pytest.approx(sum(squares) / len(squares))


@pytest.mark.parametrize("quantiser", [quantisation, squared_quantisation, mean_quantisation])
def test_every_quantisation_pulls_towards_the_code(quantiser):
    hidden = torch.tensor([[0.5, -0.25]], requires_grad=True)
    quantiser(hidden, hidden).backward()
    assert hidden.grad[0, 0] < 0 < hidden.grad[0, 1]  # towards +1 and -1, downhill is minus the gradient


def test_quantisation_of_saturated_codes_is_zero_with_a_zero_gradient():
    hidden = torch.full((4, 8), 40.0, requires_grad=True)
    saturated = hidden.tanh()
    assert set(saturated.flatten().tolist()) == {1.0}
    loss = quantisation(saturated, saturated)
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    assert torch.equal(hidden.grad, torch.zeros(4, 8))


def test_quantisation_pulls_towards_the_code_and_not_the_code_towards_it():
    hidden = torch.tensor([[0.5, -0.25]], requires_grad=True)
    quantisation(hidden, hidden).backward()
    # both views are the same tensor: 2 * (h - b) / |h - b| / 2n with b = (1, -1)
    length = math.hypot(0.5, 0.75)
    torch.testing.assert_close(hidden.grad, torch.tensor([[-0.5, 0.75]]) / length)
