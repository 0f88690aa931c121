"""MLS3RDUH: targets against loops and a plain inverse, the loss, images without edges."""

import math

import numpy as np
import pytest
import torch

from nsh.methods import TrainingData
from nsh.methods.mls3rduh import Mls3rduh, diffuse, log_cosh, similarity_targets

PARAMETERS = {"epochs": 2, "batch": 8, "learning_rate": 1e-3, "images": 50, "share": 0.15, "alpha": 0.9}


def slow_targets(features, share, alpha):
    """Image by image, with the inverse as it is printed."""
    count = len(features)
    unit = [row / np.linalg.norm(row) for row in features]
    cosines = np.array([[a @ b for b in unit] for a in unit])
    near = []
    for i in range(count):
        others = sorted((j for j in range(count) if j != i), key=lambda j: -cosines[i][j])[: int(share * count)]
        near.append({j for j in others if cosines[i][j] > 1e-4})
    edges = np.array(
        [[cosines[i][j] if j in near[i] and i in near[j] else 0 for j in range(count)] for i in range(count)]
    )
    degree = edges.sum(axis=1)
    scaled = np.array(
        [[edges[i][j] and edges[i][j] / math.sqrt(degree[i] * degree[j]) for j in range(count)] for i in range(count)]
    )
    manifold = (1 - alpha) * np.linalg.inv(np.eye(count) - alpha * scaled)
    similar, different = set(), set()
    for i in range(count):
        close = sorted(range(count), key=lambda j: -manifold[i][j])[: int(1.5 * share * count)]
        if degree[i] > 0:
            for j in (j for j in near[i] if degree[j] > 0):
                (similar if j in close else different).add((i, j))
    return 2 * np.array([[value(i, j, cosines, similar, different) for j in range(count)] for i in range(count)]) - 1


def value(i, j, cosines, similar, different):
    if i == j or (i, j) in similar or (j, i) in similar:
        return 1.0
    if (i, j) in different or (j, i) in different:
        return 0.0
    return max(0.0, cosines[i][j])


@pytest.mark.parametrize("seed", [0, 1])
def test_targets_equal_the_loops(draw_clusters, seed):
    features = draw_clusters(count=40, seed=seed).features - 1  # some cosines are negative
    targets = similarity_targets(torch.from_numpy(features), share=0.15, alpha=0.9)
    expected = slow_targets(features.astype(float), 0.15, 0.9)
    np.testing.assert_allclose(targets.numpy(), expected, atol=1e-5)
    assert {1.0, -1.0} < set(targets.flatten().tolist())


def test_diffusion_goes_along_edges_and_stays_at_an_image_that_has_none():
    edges = torch.tensor([[0.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    manifold = diffuse(edges, alpha=0.5)
    scaled = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(manifold, 0.5 * torch.inverse(torch.eye(3) - 0.5 * scaled))
    assert manifold[2].tolist() == [0, 0, 0.5]


def test_an_image_that_is_nobodys_neighbour_is_as_similar_as_its_cosine():
    """Two, then one alone, then three, on an arc: the two have the one among their nearest, which has the three."""
    angles = np.array([-0.35, -0.2, 0.0, 0.1, 0.11, 0.12])
    features = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    targets = similarity_targets(torch.from_numpy(features).float(), share=0.34, alpha=0.9)
    np.testing.assert_allclose(targets[2], np.where(angles == 0, 1, 2 * np.cos(angles) - 1), atol=1e-6)
    assert targets[0, 1] == targets[3, 4] == 1


@pytest.mark.parametrize("features", [np.ones((20, 4)), np.zeros((20, 4)), np.eye(20), np.ones((1, 4))])
def test_targets_of_odd_images_are_finite_symmetric_and_one_on_the_diagonal(features):
    targets = similarity_targets(torch.tensor(features, dtype=torch.float32), share=0.1, alpha=0.99)
    assert bool(targets.isfinite().all())
    assert torch.equal(targets, targets.T)
    assert torch.equal(targets.diagonal(), torch.ones(len(features)))


def test_log_cosh_equals_its_definition_and_stands_large_values():
    values = torch.linspace(-3, 3, 13, dtype=torch.float64)
    torch.testing.assert_close(log_cosh(values), values.cosh().log())
    assert log_cosh(torch.tensor(1e4)).item() == pytest.approx(1e4 - math.log(2))


def test_the_loss_is_of_the_images_that_are_asked_for(draw_clusters):
    data = draw_clusters(count=40)
    objective = Mls3rduh(**PARAMETERS).objective(data, bits=5, seed=0)
    targets = similarity_targets(torch.from_numpy(data.features), share=0.15, alpha=0.9)
    rows, views = torch.tensor([7, 31, 2]), torch.full((3, 12), torch.nan)
    hidden = objective.head(torch.from_numpy(data.features[[7, 31, 2]])).tanh().tolist()
    total = 0.0
    for i, a in zip((7, 31, 2), hidden, strict=True):
        for j, b in zip((7, 31, 2), hidden, strict=True):
            total += math.log(math.cosh(sum(x * y for x, y in zip(a, b, strict=True)) / 5 - targets[i, j].item()))
    assert objective.cached_loss(rows, views, views)["loss"].item() == pytest.approx(total / 9, rel=1e-4)


def test_where_the_backbone_learns_its_embeddings_are_coded_and_the_targets_stay(draw_clusters):
    data = draw_clusters(count=40)
    objective = Mls3rduh(**PARAMETERS).objective(data, bits=5, seed=0)
    targets = similarity_targets(torch.from_numpy(data.features), share=0.15, alpha=0.9)[[7, 31, 2]][:, [7, 31, 2]]
    first, second = torch.from_numpy(data.features[10:16]).split(3)
    losses = [
        log_cosh(codes @ codes.T / 5 - targets).mean()
        for codes in map(torch.tanh, map(objective.head, (first, second)))
    ]
    tuned = objective.tune(torch.tensor([7, 31, 2]), first, second)
    torch.testing.assert_close(tuned["loss"], (losses[0] + losses[1]) / 2)


def test_no_more_than_so_many_images_are_looked_at(draw_clusters):
    data = draw_clusters(count=80)
    chosen = [Mls3rduh(**PARAMETERS).select(data, seed=seed) for seed in (0, 0, 1)]
    assert isinstance(chosen[0], TrainingData)
    assert np.array_equal(chosen[0].features, data.features[chosen[0].rows])
    assert len(chosen[0].features) == len(chosen[0].views) == 50
    assert np.array_equal(chosen[0].features, chosen[1].features)
    assert not np.array_equal(chosen[0].features, chosen[2].features)
    few = draw_clusters(count=20)
    assert Mls3rduh(**PARAMETERS).select(few, seed=0) is few
