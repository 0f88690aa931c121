import numpy as np
import pytest

from nsh.core.metrics.directions import COUNT, find_directions
from nsh.errors import DataError


def images(*, count, dim, apart, seed=0):
    """Images that differ alike along all axes, and four views of each that differ as much as `apart` says."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, dim)).astype(np.float32)
    views = features[:, None] + random.normal(size=(count, 4, dim)) * apart
    return features, views.astype(np.float16)


def test_directions_are_fisher_s_and_largest_first():
    """The largest ratios of variance, by another way: the eigenvectors of S_w^-1 S_b."""
    features, views = images(count=300, dim=20, apart=np.linspace(0.1, 3, 20))
    axes = find_directions(features, views).axes
    own = views.astype(np.float64) - views.astype(np.float64).mean(axis=1, keepdims=True)
    within = sum(view[:, None] * view for rows in own for view in rows) / (300 * 3)
    within += np.trace(within) / 20 * np.eye(20)
    between = np.cov(features.T, bias=True)
    ratios = np.einsum("ij,ij->j", axes, between @ axes) / np.einsum("ij,ij->j", axes, within @ axes)
    best = np.sort(np.linalg.eigvals(np.linalg.solve(within, between)).real)[::-1][:COUNT]
    assert ratios == pytest.approx(best, rel=1e-4)
    covariance = axes.T @ between @ axes
    assert covariance == pytest.approx(np.diag(np.diagonal(covariance)), abs=1e-4 * covariance.max())


def test_images_are_projected_from_their_mean():
    features, views = images(count=50, dim=6, apart=np.ones(6))
    directions = find_directions(features, views)
    projected = directions.project(features)
    assert projected.dtype == np.float32
    assert projected == pytest.approx((features - features.mean(axis=0)) @ directions.axes, abs=1e-4)


def test_equal_views_say_nothing_and_equal_images_are_refused():
    features, _ = images(count=50, dim=6, apart=np.ones(6))
    assert np.isfinite(find_directions(features, features[:, None]).axes).all()
    with pytest.raises(DataError, match="the same embedding"):
        find_directions(features[:1].repeat(5, axis=0), features[:5, None])
