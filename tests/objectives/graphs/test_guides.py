"""Guides: confidence and consistency against loops, labels by a share of the pairs, and where nothing can be told."""

import numpy as np
import pytest
import torch
from tests.objectives.graphs.slow_guides import distances_of, slow_confidence

from nsh.objectives.graphs.guides import confidence, consistency, cosine_distances, label, weigh


@pytest.mark.parametrize("threshold", [0.1, 0.3])
def test_confidence_equals_the_loop(draw_clusters, threshold):
    distances = distances_of(draw_clusters(count=30).features.astype(float))
    apart = distances[~np.eye(30, dtype=bool)]
    weights = confidence(torch.from_numpy(distances), apart=torch.from_numpy(apart), threshold=threshold)
    expected = [[slow_confidence(d, apart.tolist(), threshold) for d in row] for row in distances.tolist()]
    np.testing.assert_allclose(weights.numpy(), np.clip(expected, 0, 1), atol=1e-6)


def test_nobody_is_sure_at_the_threshold_and_the_farther_the_surer(draw_clusters):
    distances = distances_of(draw_clusters(count=30).features.astype(float))
    apart = torch.from_numpy(distances[~np.eye(30, dtype=bool)])
    line = torch.linspace(0, 1, 41, dtype=torch.float64)
    weights = confidence(line, apart=apart, threshold=0.25)
    assert weights[10].item() == pytest.approx(0, abs=1e-9)
    assert bool((weights[:11].diff() <= 0).all())
    assert bool((weights[11:].diff() >= 0).all())


def test_the_nearest_share_of_the_pairs_is_similar(draw_clusters):
    distances = cosine_distances(torch.from_numpy(draw_clusters(count=30).features))
    signs, guides = label(distances, similar=0.2), weigh(distances, similar=0.2)
    apart = ~torch.eye(30, dtype=torch.bool)
    assert (signs[apart] > 0).float().mean().item() == pytest.approx(0.2, abs=0.01)
    assert distances[signs > 0].max() <= distances[signs < 0].min()
    assert bool((guides.sign() * signs >= 0).all())
    assert bool((guides.abs() <= 1).all())


def test_consistency_equals_the_loop():
    generator = torch.Generator().manual_seed(0)
    codes, guides = torch.rand(4, 3, generator=generator) * 2 - 1, torch.rand(4, 4, generator=generator) * 2 - 1
    total = 0.0
    for i in range(4):
        for j in range(4):
            product = sum(a * b for a, b in zip(codes[i].tolist(), codes[j].tolist(), strict=True)) / 3
            total += abs(guides[i, j].item()) * (product - (1 if guides[i, j] > 0 else -1)) ** 2
    assert consistency(codes, guides).item() == pytest.approx(total / 16, rel=1e-5)


@pytest.mark.parametrize("features", [torch.ones(20, 4), torch.zeros(20, 4), torch.eye(20), torch.ones(1, 4)])
def test_guides_of_odd_images_are_finite(features):
    assert bool(weigh(cosine_distances(features), similar=0.1).isfinite().all())
