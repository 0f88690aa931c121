"""CIMON: confidence, clusters and guides against loops; the loss; where nothing can be told."""

import math
from functools import cache

import numpy as np
import pytest
import torch

from nsh.errors import TrainingError
from nsh.methods.cimon import Cimon, cluster, confidence, consistency, guide, spectral_vectors
from nsh.objectives.contrast import ntxent

PARAMETERS = {
    "epochs": 2,
    "batch": 8,
    "learning_rate": 1e-3,
    "images": 50,
    "similar": 0.2,
    "clusters": 5,
    "contrast": 0.3,
    "temperature": 0.5,
}


def unit_rows(features):
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def distances_of(features):
    unit = unit_rows(features)
    distances = np.maximum(1 - unit @ unit.T, 0)
    np.fill_diagonal(distances, 0)
    return distances


def phi(value):
    return (1 + math.erf(value / math.sqrt(2))) / 2


@cache
def slow_shape(apart):
    """The peak of the histogram, and the half normal distributions' widths below and above it."""
    counts = [sum(k / 100 <= d < (k + 1) / 100 for d in apart) for k in range(100)]
    peak = counts.index(max(counts)) / 100
    left, right = [d for d in apart if d <= peak], [d for d in apart if d > peak]
    down, up = (math.sqrt(sum((d - peak) ** 2 for d in side) / len(side)) for side in (left, right))
    return peak, down, up


def slow_confidence(distance, apart, threshold):
    peak, down, up = slow_shape(tuple(apart))
    if distance <= threshold:
        return (phi((threshold - peak) / down) - phi((distance - peak) / down)) / phi((threshold - peak) / down)
    beyond = phi((threshold - peak) / up)
    return (phi((distance - peak) / up) - beyond) / (1 - beyond)


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


@pytest.mark.parametrize("seed", [0, 1])
def test_spectral_vectors_span_what_the_leading_eigenvectors_span(seed):
    """Compared by the angles between images, which no basis of the span changes."""
    generator = np.random.default_rng(seed)
    features = np.eye(4)[np.arange(40) % 4] * 3 + generator.normal(size=(40, 4)) * 0.3
    distances = distances_of(features)
    squared = [[((a - b) ** 2).sum() for b in unit_rows(features)] for a in unit_rows(features)]
    affinity = np.exp(-np.array(squared))
    degree = affinity.sum(axis=1)
    leading = np.linalg.eigh(affinity / np.sqrt(np.outer(degree, degree)))[1][:, -4:]
    expected = unit_rows(leading) @ unit_rows(leading).T
    vectors = spectral_vectors(torch.from_numpy(distances).float(), count=4, seed=seed).numpy()
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=1e-3)


def test_clusters_are_those_that_are_plain_to_see():
    generator = np.random.default_rng(0)
    groups = np.arange(60) % 3
    features = np.eye(3)[groups] * 10 + generator.normal(size=(60, 3)) * 0.2
    members = cluster(torch.from_numpy(distances_of(features)).float(), count=3, seed=0).numpy()
    assert all((members[i] == members[j]) == (groups[i] == groups[j]) for i in range(60) for j in range(60))


def test_a_guide_is_the_target_times_the_confidence_where_clusters_agree(draw_clusters):
    features = draw_clusters(count=30).features
    guides = guide(torch.from_numpy(features), similar=0.2, clusters=5, seed=1)
    distances = distances_of(features.astype(float))
    apart = distances[~np.eye(30, dtype=bool)]
    threshold = float(np.quantile(apart, 0.2))
    members = cluster(torch.from_numpy(distances).float(), count=5, seed=1).tolist()
    for i in range(30):
        for j in range(30):
            similar = distances[i, j] <= threshold
            weight = slow_confidence(distances[i, j], apart.tolist(), threshold)
            weight *= similar == (members[i] == members[j])
            assert guides[i, j].item() == pytest.approx(weight if similar else -weight, abs=1e-3)


def test_consistency_equals_the_loop():
    generator = torch.Generator().manual_seed(0)
    codes, guides = torch.rand(4, 3, generator=generator) * 2 - 1, torch.rand(4, 4, generator=generator) * 2 - 1
    total = 0.0
    for i in range(4):
        for j in range(4):
            product = sum(a * b for a, b in zip(codes[i].tolist(), codes[j].tolist(), strict=True)) / 3
            total += abs(guides[i, j].item()) * (product - (1 if guides[i, j] > 0 else -1)) ** 2
    assert consistency(codes, guides).item() == pytest.approx(total / 16, rel=1e-5)


def test_codes_of_both_views_meet_the_targets_of_both_views(draw_clusters):
    data = draw_clusters(count=40)
    objective = Cimon(**PARAMETERS).objective(data, bits=6, seed=2)
    rows = torch.tensor([3, 17, 30])
    first, second = (torch.from_numpy(data.views[rows.numpy(), view].astype(np.float32)) for view in (1, 2))
    terms = objective.cached_loss(rows, first, second)
    views = (torch.from_numpy(data.views[:, view].astype(np.float32)) for view in (0, 2))
    guides = [guide(view, similar=0.2, clusters=5, seed=2)[rows][:, rows] for view in views]
    codes = [objective.head(view).tanh() for view in (first, second)]
    semantic = sum(consistency(one, by) for one in codes for by in guides)
    torch.testing.assert_close(terms["semantic"], semantic)
    torch.testing.assert_close(terms["contrast"], ntxent(*codes, temperature=0.5))
    torch.testing.assert_close(terms["loss"], semantic + 0.3 * terms["contrast"])


def test_fewer_images_than_clusters_is_said_clearly(draw_clusters):
    with pytest.raises(TrainingError, match="found 4 training images for 5 clusters"):
        Cimon(**PARAMETERS).objective(draw_clusters(count=4), bits=6, seed=0)


@pytest.mark.parametrize("features", [torch.ones(20, 4), torch.eye(2, 4).repeat(10, 1)])
def test_images_that_are_all_alike_give_finite_guides_or_a_clear_sentence(features):
    try:
        guides = guide(features, similar=0.1, clusters=3, seed=0)
    except TrainingError as error:
        assert "different training images for 3 clusters: lower clusters" in str(error)  # noqa: PT017
    else:
        assert bool(guides.isfinite().all())


def test_too_few_different_images_are_said_in_the_methods_own_words(monkeypatch):
    monkeypatch.setattr(
        "nsh.methods.cimon.spectral_vectors", lambda distances, **_: torch.eye(2).repeat(10, 1).double()
    )
    with pytest.raises(TrainingError, match="fewer than 3 different training images for 3 clusters: lower clusters"):
        cluster(torch.zeros(20, 20), count=3, seed=0)
