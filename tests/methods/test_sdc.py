"""SDC: quantiles against the closed form of the distribution, calibration against a loop."""

import math

import numpy as np
import pytest
import torch

from nsh.methods.sdc import Sdc, beta_quantiles, calibration

PARAMETERS = {"epochs": 2, "batch": 8, "learning_rate": 1e-3, "beta": 5.0, "quantisation": 1.0}


def cumulated(x, shape):
    """I_x(a, a) of a whole number a: the chance of a or more successes in 2 a - 1 trials."""
    trials = 2 * shape - 1
    return sum(math.comb(trials, k) * x**k * (1 - x) ** (trials - k) for k in range(shape, trials + 1))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


@pytest.mark.parametrize("shape", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 6, 200])
def test_quantiles_undo_the_cumulated_distribution(shape, count):
    quantiles = beta_quantiles(count, beta=float(shape))
    expected = [(2 * k - 1) / (2 * count) for k in range(1, count + 1)]
    np.testing.assert_allclose([cumulated(x, shape) for x in quantiles], expected, atol=1e-7)


def slow_calibration(codes, features, targets):
    pairs = [(i, j) for i in range(len(codes)) for j in range(i + 1, len(codes))]
    pairs.sort(key=lambda pair: cosine(features[pair[0]], features[pair[1]]))
    differences = [abs(cosine(codes[i], codes[j]) - target) for (i, j), target in zip(pairs, targets, strict=True)]
    return sum(differences) / len(differences)


def test_calibration_equals_the_loop():
    generator = torch.Generator().manual_seed(0)
    codes, features = (torch.randn(7, dim, generator=generator, dtype=torch.float64) for dim in (4, 6))
    targets = torch.linspace(-1, 1, 21, dtype=torch.float64)
    expected = slow_calibration(codes.tolist(), features.tolist(), targets.tolist())
    assert calibration(codes, features, targets).item() == pytest.approx(expected)


@pytest.mark.parametrize("shape", [2, 5])
def test_targets_are_the_stretched_quantiles_and_never_negative(draw_clusters, shape):
    targets = Sdc(**PARAMETERS | {"beta": float(shape)}).objective(draw_clusters(), bits=6, seed=0).quantiles.tolist()
    assert targets[:14] == [0] * 14
    shares = [(2 * k - 1) / 56 for k in range(15, 29)]  # 8 images are 28 pairs
    assert [cumulated((target + 1) / 2, shape) for target in targets[14:]] == pytest.approx(shares, abs=1e-5)


def test_the_loss_is_the_calibration_and_the_weighted_angle_to_the_bits(draw_clusters):
    data = draw_clusters()
    objective = Sdc(**PARAMETERS | {"quantisation": 0.5}).objective(data, bits=6, seed=0)
    inputs, targets = torch.from_numpy(data.features[:16]).split(8)
    terms, codes = objective.terms(inputs, targets), objective.head(inputs)
    angles = [1 - cosine(row, [1 if value > 0 else -1 for value in row]) for row in codes.tolist()]
    assert terms["quantisation"].item() == pytest.approx(sum(angles) / 8, rel=1e-4)
    torch.testing.assert_close(terms["calibration"], calibration(codes, targets, objective.quantiles))
    torch.testing.assert_close(terms["loss"], terms["calibration"] + 0.5 * terms["quantisation"])


def test_features_get_no_gradient():
    codes, features = torch.randn(4, 3, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    calibration(codes, features, torch.zeros(6)).backward()
    assert codes.grad is not None
    assert features.grad is None
