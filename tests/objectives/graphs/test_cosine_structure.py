"""The loss of GreedyHash and Bi-half against a loop over pairs."""

import math

import pytest
import torch

from nsh.objectives.graphs.cosine_structure import cosine_structure


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def test_structure_equals_the_loop_over_pairs():
    generator = torch.Generator().manual_seed(0)
    codes = torch.randn(7, 5, generator=generator, dtype=torch.float64).sign()
    features = torch.randn(7, 9, generator=generator, dtype=torch.float64)
    b, x = codes.tolist(), features.tolist()
    pairs = [(i, j) for i in range(7) for j in range(7) if i != j]
    expected = sum((cosine(b[i], b[j]) - cosine(x[i], x[j])) ** 2 for i, j in pairs) / len(pairs)
    assert cosine_structure(codes, features).item() == pytest.approx(expected)


def test_codes_that_are_the_features_lose_nothing():
    features = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    assert cosine_structure(3 * features, features).item() == pytest.approx(0, abs=1e-10)


def test_features_get_no_gradient():
    codes, features = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    cosine_structure(codes, features).backward()
    assert codes.grad is not None
    assert features.grad is None


def test_zero_codes_and_features_are_finite():
    codes = torch.zeros(3, 4, requires_grad=True)
    loss = cosine_structure(codes, torch.zeros(3, 2))
    loss.backward()
    assert loss.item() == 0
    assert bool(codes.grad.isfinite().all())
