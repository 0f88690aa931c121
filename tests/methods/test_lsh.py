"""LSH against the probability that makes it a locality-sensitive hash."""

import math

import numpy as np
import pytest
import torch
from tests.methods.closed_form import as_data, no_loop

from nsh.methods.lsh import Lsh


def draw_data(count=50, dim=8, seed=0):
    features = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32) + 1
    return as_data(features)


def fit(data, bits, seed=0):
    rows = []
    head = Lsh().fit(data, bits=bits, seed=seed, report=rows.append, loop=no_loop)
    return head, rows


def angle(first, second):
    dot = sum(a * b for a, b in zip(first, second, strict=True))
    return math.acos(dot / math.hypot(*first) / math.hypot(*second))


def test_share_of_differing_bits_is_the_angle_from_the_mean_over_pi():
    data, bits = draw_data(), 20_000
    head, _ = fit(data, bits)
    codes = (head(torch.from_numpy(data.features)) > 0).numpy()
    unit = [[x / math.hypot(*row) for x in row] for row in data.features.tolist()]
    mean = [sum(column) / len(unit) for column in zip(*unit, strict=True)]
    seen = [[x - m for x, m in zip(row, mean, strict=True)] for row in unit]
    for i in range(0, 50, 7):
        for j in range(i):
            share = angle(seen[i], seen[j]) / math.pi
            spread = math.sqrt(share * (1 - share) / bits)
            assert np.mean(codes[i] != codes[j]) == pytest.approx(share, abs=5 * spread)


def test_hyperplanes_have_unit_normals_and_no_preferred_direction():
    head, _ = fit(draw_data(dim=5), 20_000)
    normals = head.linear.weight.detach()
    torch.testing.assert_close(normals.norm(dim=1), torch.ones(20_000))
    torch.testing.assert_close(normals.T @ normals / 20_000, torch.eye(5) / 5, atol=0.01, rtol=0)
    torch.testing.assert_close(normals.mean(dim=0), torch.zeros(5), atol=0.02, rtol=0)


def test_the_reported_loss_is_what_the_bits_lose():
    data = draw_data()
    head, [row] = fit(data, 6)
    logits = head(torch.from_numpy(data.features)).detach().numpy()
    assert row == {"epoch": 1, "loss": pytest.approx(np.mean((np.where(logits > 0, 1, -1) - logits) ** 2), rel=1e-5)}


def test_more_bits_than_features_are_no_hindrance():
    data = draw_data(dim=4)
    head, _ = fit(data, 32)
    assert head(torch.from_numpy(data.features)).shape == (50, 32)


def test_the_seed_and_it_alone_draws_the_hyperplanes():
    data = draw_data()
    weights = [fit(data, 6, seed=seed)[0].linear.weight for seed in (5, 5, 6)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.allclose(weights[0], weights[2])
