"""PCAH against the power method, which needs no eigenvalue routine, and its closed form."""

import numpy as np
import pytest
import torch
from tests.methods.closed_form import as_data, no_loop

from nsh.errors import TrainingError
from nsh.methods.itq import Itq
from nsh.methods.pcah import Pcah


def draw_data(count=80, dim=8, seed=0):
    generator = np.random.default_rng(seed)
    features = (generator.normal(size=(count, dim)) * 0.5 ** np.arange(dim) + 2).astype(np.float32)
    return as_data(features)


def fit(data, bits=4, seed=0):
    rows = []
    head = Pcah().fit(data, bits=bits, seed=seed, report=rows.append, loop=no_loop)
    return head, rows


def slow_components(features, bits, rounds=3000):
    """Largest variance first, each found by the power method in what the ones before have left."""
    unit = np.array([row / np.sqrt(sum(x * x for x in row)) for row in features.astype(float)])
    left = centred = unit - unit.sum(axis=0) / len(unit)
    columns = []
    for _ in range(bits):
        direction = np.ones(features.shape[1])
        for _ in range(rounds):
            direction = left.T @ (left @ direction)
            direction /= np.sqrt(direction @ direction)
        direction *= np.sign(direction[np.argmax(np.abs(direction))])
        columns.append(centred @ direction)
        left = left - np.outer(left @ direction, direction)
    return np.stack(columns, axis=1)


def test_logits_are_the_principal_components():
    data = draw_data()
    head, _ = fit(data)
    found = head(torch.from_numpy(data.features)).detach().numpy()
    np.testing.assert_allclose(found, slow_components(data.features, 4), atol=1e-5)


def test_components_are_centred_uncorrelated_and_of_falling_variance():
    data = draw_data()
    logits = fit(data, bits=6)[0](torch.from_numpy(data.features)).detach().double().numpy()
    covariance = logits.T @ logits / len(logits)
    np.testing.assert_allclose(logits.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(covariance - np.diag(np.diag(covariance)), 0, atol=1e-7)
    assert (np.diff(np.diag(covariance)) < 0).all()


def test_the_rotation_of_itq_lowers_the_reported_loss():
    data, rows = draw_data(), []
    _, [row] = fit(data)
    Itq(iterations=20).fit(data, bits=4, seed=0, report=rows.append, loop=no_loop)
    assert row["epoch"] == 1
    assert rows[-1]["loss"] < row["loss"]


def test_more_bits_than_directions_are_refused_with_their_number():
    data = draw_data(dim=8)
    assert fit(data, bits=7)[0].bits == 7
    with pytest.raises(TrainingError, match=r"9 bits asked for, [78] found in 80 training images with 8 features"):
        fit(data, bits=9)
    with pytest.raises(TrainingError, match="4 bits asked for, 2 found in 3 training images"):
        fit(draw_data(count=3))
    with pytest.raises(
        TrainingError, match="0 found in 1 training images with 8 features; choose fewer bits, more images"
    ):
        fit(draw_data(count=1))


def test_the_seed_changes_nothing():
    data = draw_data()
    assert torch.equal(fit(data, seed=0)[0].linear.weight, fit(data, seed=1)[0].linear.weight)
