"""CroVCA: alignment against a loop, the coding rate against eigenvalues and its extremes."""

import math

import numpy as np
import pytest
import torch

from nsh.methods.crovca import Crovca, alignment, coding_rate

PARAMETERS = {"epochs": 2, "batch": 8, "learning_rate": 1e-3, "coding_rate": 0.1, "epsilon": 0.05}


def test_alignment_equals_the_loop():
    generator = torch.Generator().manual_seed(0)
    logits, others = (torch.randn(5, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    losses = []
    for row, labels in zip(logits.tolist(), others.tolist(), strict=True):
        for value, label in zip(row, labels, strict=True):
            chance = 1 / (1 + math.exp(-value))
            losses.append(-math.log(chance if label > 0 else 1 - chance))
    assert alignment(logits, others).item() == pytest.approx(sum(losses) / len(losses))


def test_labels_get_no_gradient():
    logits, others = torch.randn(3, 2, requires_grad=True), torch.randn(3, 2, requires_grad=True)
    alignment(logits, others).backward()
    assert logits.grad is not None
    assert others.grad is None


def test_coding_rate_equals_the_sum_over_eigenvalues():
    logits = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
    unit = logits.double().numpy() / np.linalg.norm(logits.double().numpy(), axis=1, keepdims=True)
    eigenvalues = np.linalg.eigvalsh(unit.T @ unit)
    expected = 0.5 * np.log(1 + 4 / (9 * 0.05) * eigenvalues).sum() * (4 + 9) / (4 * 9)
    assert coding_rate(logits, epsilon=0.05).item() == pytest.approx(expected, rel=1e-5)


def test_equal_codes_have_the_least_volume_and_orthogonal_ones_the_most():
    """Of n unit rows one direction has all n of the trace, or d directions n / d each."""
    collapsed = coding_rate(torch.ones(8, 4), epsilon=0.05).item()
    spread = coding_rate(torch.eye(4).repeat(2, 1), epsilon=0.05).item()
    factor = (4 + 8) / (4 * 8)
    assert collapsed == pytest.approx(0.5 * math.log(1 + 4 / 0.05) * factor, rel=1e-5)
    assert spread == pytest.approx(0.5 * 4 * math.log(1 + 1 / 0.05) * factor, rel=1e-5)
    assert collapsed < spread


def test_zero_codes_have_no_volume_and_a_finite_gradient():
    logits = torch.zeros(6, 3, requires_grad=True)
    rate = coding_rate(logits, epsilon=0.05)
    rate.backward()
    assert rate.item() == 0
    assert bool(logits.grad.isfinite().all())


def test_the_loss_is_the_alignment_both_ways_less_the_weighted_volume(draw_clusters):
    data = draw_clusters()
    objective = Crovca(**PARAMETERS).objective(data, bits=6, seed=0)
    first, second = (torch.from_numpy(data.views[:8, view].astype(np.float32)) for view in (0, 1))
    terms = objective(first, second)
    one, other = objective.head(first), objective.head(second)
    aligned = (alignment(one, other) + alignment(other, one)) / 2
    rate = (coding_rate(one, epsilon=0.05) + coding_rate(other, epsilon=0.05)) / 2
    torch.testing.assert_close(terms["alignment"], aligned)
    torch.testing.assert_close(terms["coding_rate"], rate)
    torch.testing.assert_close(terms["loss"], aligned - 0.1 * rate)
