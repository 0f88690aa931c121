"""Hashing-Baseline: what it is of ITQ, its geometry, and its limits."""

import numpy as np
import pytest
import torch
from tests.methods.closed_form import draw_classes, no_loop

from nsh.errors import TrainingError
from nsh.methods.hashing_baseline import HashingBaseline


def fit(data, *, bits=6, seed=0):
    rows = []
    head = HashingBaseline().fit(data, bits=bits, seed=seed, report=rows.append, loop=no_loop)
    return head, rows


def project(data, bits):
    """Coordinates in the first principal directions of unit features, by singular values."""
    unit = data.features / np.linalg.norm(data.features, axis=1, keepdims=True).astype(np.float64)
    centred = unit - unit.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:bits].T


def test_logits_are_the_principal_coordinates_turned():
    data = draw_classes()
    head, rows = fit(data)
    logits, projected = head(torch.from_numpy(data.features)).detach().numpy(), project(data, 6)
    np.testing.assert_allclose(logits @ logits.T, projected @ projected.T, atol=1e-5)
    assert rows == [{"epoch": 1, "loss": pytest.approx(np.square(np.where(logits > 0, 1, -1) - logits).mean())}]


def test_the_turn_spreads_the_variance_over_the_bits():
    data = draw_classes(count=400)
    logits = fit(data)[0](torch.from_numpy(data.features)).detach().numpy()
    assert logits.var(axis=0).max() < project(data, 6).var(axis=0).max()
    assert logits.var(axis=0).sum() == pytest.approx(project(data, 6).var(axis=0).sum(), rel=1e-4)


def test_the_seed_is_the_turn():
    weights = [fit(draw_classes(), seed=seed)[0].linear.weight for seed in (5, 5, 6)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.allclose(weights[0], weights[2])


def test_as_many_bits_as_features_is_the_most():
    assert fit(draw_classes(dim=9), bits=9)[0].bits == 9
    with pytest.raises(TrainingError, match="10 bits asked for, 9 features found"):
        fit(draw_classes(dim=9), bits=10)
