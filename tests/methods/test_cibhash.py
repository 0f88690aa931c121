"""CIBHash against its equations, written as loops."""

import math

import numpy as np
import pytest
import torch

from nsh.methods.cibhash import CibHash, divergence
from nsh.objectives.contrast import ntxent

PARAMETERS = {
    "epochs": 2,
    "batch": 8,
    "learning_rate": 1e-3,
    "hidden": 16,
    "temperature": 0.3,
    "bottleneck": 0.01,
}


def build(data, **changes):
    objective = CibHash(**PARAMETERS | changes).objective(data, bits=6, seed=0)
    first, second = (torch.from_numpy(data.views[:8, view].astype(np.float32)) for view in (0, 1))
    return objective, first, second


def slow_divergence(first, second):
    """(KL(p || q) + KL(q || p)) / 2, bit by bit."""
    total = 0.0
    for row, other in zip(first.tolist(), second.tolist(), strict=True):
        for a, b in zip(row, other, strict=True):
            p, q = 1 / (1 + math.exp(-a)), 1 / (1 + math.exp(-b))
            forth = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
            back = q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
            total += (forth + back) / 2
    return total / len(first)


def test_divergence_equals_the_loop():
    generator = torch.Generator().manual_seed(0)
    first, second = (3 * torch.randn(5, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    assert divergence(first, second).item() == pytest.approx(slow_divergence(first, second))


def test_equal_views_do_not_diverge_and_extreme_logits_stay_finite():
    logits = torch.tensor([[200.0, -200.0, 0.0]], requires_grad=True)
    assert divergence(logits, logits).item() == 0
    loss = divergence(logits, -logits)
    loss.backward()
    assert math.isfinite(loss.item())
    assert bool(logits.grad.isfinite().all())


def test_each_divergence_moves_its_first_argument_only():
    """With p moved and q held: d KL(p || q) / d logit p = p (1 - p) (logit p - logit q)."""
    first, second = torch.tensor([[0.7]], requires_grad=True), torch.tensor([[-0.4]], requires_grad=True)
    divergence(first, second).backward()
    p = 1 / (1 + math.exp(-0.7))
    assert first.grad.item() == pytest.approx(p * (1 - p) * 1.1 / 2, rel=1e-5)


def test_the_loss_is_the_contrast_of_the_bits_and_the_weighted_divergence(draw_clusters):
    objective, first, second = build(draw_clusters())
    terms = objective(first, second)
    logits = [objective.head(view) for view in (first, second)]
    codes = [torch.where(one > 0, 1.0, -1.0) for one in logits]
    torch.testing.assert_close(terms["contrast"], ntxent(*codes, temperature=0.3))
    torch.testing.assert_close(terms["divergence"], divergence(*logits))
    torch.testing.assert_close(terms["loss"], terms["contrast"] + 0.01 * terms["divergence"])


def test_the_gradient_of_the_bits_is_handed_on_to_their_chances(draw_clusters):
    objective, first, second = build(draw_clusters())
    objective(first, second)["contrast"].backward()
    hidden = objective.head.hide(objective.head.standardise(torch.cat([first, second])))
    chances = objective.head.linear(hidden).sigmoid()
    codes = torch.where(chances > 0.5, 1.0, -1.0).requires_grad_()
    ntxent(*codes.chunk(2), temperature=0.3).backward()
    expected = (codes.grad * chances * (1 - chances)).T @ hidden
    torch.testing.assert_close(objective.head.linear.weight.grad, expected)
    assert float(objective.head.hidden.weight.grad.abs().sum()) > 0
