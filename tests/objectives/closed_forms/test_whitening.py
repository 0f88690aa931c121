"""Discriminant directions: what the definition asks of them, views without any difference, equal images."""

import numpy as np
import pytest
import torch

from nsh.errors import TrainingError
from nsh.objectives.closed_forms import whitening
from nsh.objectives.closed_forms.whitening import discriminant_directions


def draw(count=300, dim=5, seed=0):
    """Images that differ most along the last axis, views that differ even more along the first."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, dim)) * np.linspace(1, 2, dim)
    noise = generator.normal(size=(count, 4, dim)) * np.linspace(3, 0.1, dim)
    views = (features[:, None] + noise).astype(np.float16)
    return torch.from_numpy(features - features.mean(axis=0)), views


def slow_within(views):
    total, count = np.zeros((views.shape[2],) * 2), 0
    for image in views.astype(np.float64):
        for view in image:
            total += np.outer(view - image.mean(axis=0), view - image.mean(axis=0))
        count += len(image) - 1
    return total / count


def test_the_directions_solve_the_generalised_eigenproblem():
    features, views = draw()
    scale = torch.linspace(1, 3, 5, dtype=torch.float64)
    directions = discriminant_directions(features / scale, views, scale=scale, count=3).numpy()
    within = slow_within(views) / np.outer(scale, scale)
    within += whitening.RIDGE * np.trace(within) / 5 * np.eye(5)
    between = ((features / scale).T @ (features / scale) / 300).numpy()
    ratios = [(d @ between @ d) / (d @ within @ d) for d in directions.T]
    for ratio, direction in zip(ratios, directions.T, strict=True):
        np.testing.assert_allclose(between @ direction, ratio * (within @ direction), atol=1e-3)
    best = np.sort(np.linalg.eigvals(np.linalg.solve(within, between)).real)[::-1]
    np.testing.assert_allclose(ratios, best[:3], rtol=1e-4)


def test_projections_are_uncorrelated_of_falling_variance_whose_mean_is_one():
    features, views = draw()
    projected = features @ discriminant_directions(features, views, scale=torch.ones(5).double(), count=4)
    covariance = projected.T @ projected / 300
    variances = covariance.diagonal()
    torch.testing.assert_close(covariance, variances.diag(), atol=1e-9, rtol=0)
    assert bool((variances.diff() < 0).all())
    assert variances.mean().item() == pytest.approx(1)


def test_what_the_views_differ_in_counts_least(monkeypatch):
    features, views = draw()
    first = discriminant_directions(features, views, scale=torch.ones(5).double(), count=1)[:, 0].abs()
    assert int(first.argmax()) == 4
    assert first[0] < first[4] / 10


def test_all_images_are_read_whatever_is_read_at_once(monkeypatch):
    features, views = draw()
    whole = discriminant_directions(features, views, scale=torch.ones(5).double(), count=2)
    monkeypatch.setattr(whitening, "CHUNK", 7)
    again = discriminant_directions(features, views, scale=torch.ones(5).double(), count=2)
    torch.testing.assert_close(again, whole, rtol=1e-4, atol=1e-6)


def test_views_that_do_not_differ_leave_the_principal_directions():
    features, _ = draw()
    views = np.repeat(features.numpy()[:, None], 2, axis=1).astype(np.float16)
    directions = discriminant_directions(features, views, scale=torch.ones(5).double(), count=5)
    unit = directions / directions.norm(dim=0)
    torch.testing.assert_close(unit.T @ unit, torch.eye(5).double(), atol=1e-6, rtol=0)


def test_equal_images_are_refused():
    with pytest.raises(TrainingError, match="the same embedding"):
        discriminant_directions(
            torch.zeros(9, 4).double(), np.ones((9, 2, 4), np.float16), scale=torch.ones(4), count=2
        )
