"""Anchor graphs against loops, and their functions against the eigenvectors of the whole graph."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from nsh.errors import TrainingError
from nsh.objectives.graphs.anchors import AnchorGraph, AnchorHead, build_graph, eigenfunctions, find_anchors, inverse


def draw_features(count=60, dim=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(4, dim, generator=generator, dtype=torch.float64) * 0.7
    features = centres[torch.arange(count) % 4] + torch.randn(count, dim, generator=generator, dtype=torch.float64)
    return functional.normalize(features, dim=1)


def two_parts(count=60):
    """Images in two tight groups at right angles: with few neighbours their graph is in two parts."""
    generator = torch.Generator().manual_seed(0)
    features = 0.2 * torch.randn(count, 8, generator=generator, dtype=torch.float64)
    features[: count // 3, 0] += 3
    features[count // 3 :, 1] += 3
    return functional.normalize(features, dim=1)


def slow_weights(features, anchors, nearest, width=None):
    """Section 3 of the paper: squared distances, the nearest, the kernel, the sum to 1."""
    squared = [[sum((x - a) ** 2 for x, a in zip(row, anchor, strict=True)) for anchor in anchors] for row in features]
    chosen = [sorted(range(len(anchors)), key=lambda j, row=row: row[j])[:nearest] for row in squared]
    if width is None:
        width = (sum(math.sqrt(row[keep[-1]]) for row, keep in zip(squared, chosen, strict=True)) / len(squared)) ** 2
    weights = np.zeros((len(features), len(anchors)))
    for i, keep in enumerate(chosen):
        kernel = {j: math.exp(-squared[i][j] / width) for j in keep}
        for j, value in kernel.items():
            weights[i, j] = value / sum(kernel.values())
    return weights, width


def dense(graph):
    """A = Z Lambda^-1 Z^T, whole."""
    return graph.weights @ torch.diag(inverse(graph.mass)) @ graph.weights.T


@pytest.mark.parametrize("nearest", [1, 3, 12])
def test_weights_and_width_equal_the_loop(nearest):
    features = draw_features()
    graph = build_graph(features, anchors=12, nearest=nearest, seed=0)
    weights, width = slow_weights(features.tolist(), graph.anchors.tolist(), nearest)
    assert graph.width == pytest.approx(width)
    np.testing.assert_allclose(graph.weights.numpy(), weights, atol=1e-12)
    np.testing.assert_allclose(graph.mass.numpy(), weights.sum(axis=0))


def test_the_head_gives_new_images_the_weights_of_the_loop():
    graph = build_graph(draw_features(), anchors=12, nearest=3, seed=0)
    projection = torch.randn(12, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    head = AnchorHead(7, 5, anchors=12, nearest=3, functions=5)
    head.set_graph(graph, projection)
    fresh = draw_features(20, seed=9)
    weights, _ = slow_weights(fresh.tolist(), graph.anchors.tolist(), 3, graph.width)
    found = head(5 * fresh.float())
    np.testing.assert_allclose(found.numpy(), weights @ projection.numpy(), atol=1e-5)


def test_rows_of_the_graph_sum_to_one_and_it_spreads_as_the_whole_matrix_does():
    graph = build_graph(draw_features(), anchors=12, nearest=3, seed=0)
    torch.testing.assert_close(dense(graph).sum(dim=1), torch.ones(60, dtype=torch.float64))
    values = torch.randn(60, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    torch.testing.assert_close(graph.spread(values), dense(graph) @ values)


def slow_k_means(features, centres, rounds):
    for _ in range(rounds):
        groups = {}
        for row in features:
            nearest = min(range(len(centres)), key=lambda j: sum((row - centres[j]) ** 2))
            groups.setdefault(nearest, []).append(row)
        centres = [np.mean(groups[j], axis=0) if j in groups else centre for j, centre in enumerate(centres)]
    return np.array(centres)


def test_anchors_are_centres_of_k_means(monkeypatch):
    features = draw_features()
    monkeypatch.setattr("nsh.objectives.graphs.anchors.ROUNDS", 0)
    start = find_anchors(features, count=9, seed=4)
    assert all(bool((features == row).all(dim=1).any()) for row in start)
    assert len(start.unique(dim=0)) == 9
    monkeypatch.setattr("nsh.objectives.graphs.anchors.ROUNDS", 3)
    expected = slow_k_means(features.numpy(), list(start.numpy()), 3)
    np.testing.assert_allclose(find_anchors(features, count=9, seed=4).numpy(), expected)


def test_anchors_differ_by_seed_and_only_by_it():
    features = draw_features()
    first, second, third = (find_anchors(features, count=9, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_duplicates_count_once_as_anchors():
    features = draw_features(10).repeat(5, 1)
    assert len(find_anchors(features, count=10, seed=0).unique(dim=0)) == 10
    with pytest.raises(TrainingError, match="found 10 different training images for 11 anchors: choose anchors <= 10"):
        find_anchors(features, count=11, seed=0)


def test_more_neighbours_than_anchors_are_refused():
    with pytest.raises(TrainingError, match="found nearest = 5 of 4 anchors"):
        build_graph(draw_features(), anchors=4, nearest=5, seed=0)


def test_functions_are_the_eigenvectors_of_the_whole_graph_but_the_constant_one():
    graph = build_graph(draw_features(), anchors=12, nearest=3, seed=0)
    projection, eigenvalues = eigenfunctions(graph, count=6)
    functions = graph.weights @ projection
    values, vectors = np.linalg.eigh(dense(graph).numpy())
    assert values[-1] == pytest.approx(1)
    assert np.ptp(vectors[:, -1]) < 1e-9, "the constant one"
    np.testing.assert_allclose(eigenvalues.numpy(), values[::-1][1:7], atol=1e-12)
    for column, vector in zip(functions.T.numpy(), vectors[:, ::-1].T[1:7], strict=True):
        assert abs(column @ vector) == pytest.approx(math.sqrt(60))  # parallel, and of length sqrt(n)


@pytest.mark.parametrize("make", [draw_features, two_parts])
def test_functions_are_balanced_uncorrelated_and_of_unit_variance(make):
    graph = build_graph(make(), anchors=12, nearest=3, seed=0)
    projection, eigenvalues = eigenfunctions(graph, count=5)
    functions = graph.weights @ projection
    torch.testing.assert_close(functions.T @ functions / 60, torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(functions.sum(dim=0), torch.zeros(5, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(dense(graph) @ functions, functions * eigenvalues)


def test_a_graph_of_two_parts_keeps_the_function_that_tells_them_apart():
    graph = build_graph(two_parts(), anchors=12, nearest=2, seed=0)
    projection, eigenvalues = eigenfunctions(graph, count=3)
    assert float(eigenvalues[0]) == pytest.approx(1)
    signs = ((graph.weights @ projection)[:, 0] > 0).tolist()
    assert signs in ([True] * 20 + [False] * 40, [False] * 20 + [True] * 40)


def test_an_anchor_without_images_takes_no_part():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
    graph = AnchorGraph(torch.eye(3, dtype=torch.float64), 1.0, weights, weights.sum(dim=0))
    projection, _ = eigenfunctions(graph, count=1)
    assert bool(projection.isfinite().all())
    assert projection[2].tolist() == [0.0]
    assert bool(graph.spread(torch.ones(3, 1, dtype=torch.float64)).isclose(torch.ones(1, dtype=torch.float64)).all())


@pytest.mark.parametrize("weight", [1e-12, 1e-80, 1e-200])
def test_an_anchor_of_two_far_images_takes_the_mean_of_their_functions(weight):
    """What they weigh does not matter, however little it is: A Y = Y Sigma, read at the anchor."""
    graph = build_graph(draw_features(200), anchors=40, nearest=3, seed=0)
    weights = graph.weights.clone()
    weights[:, 17] = 0
    weights[5, 17], weights[6, 17] = weight, 2 * weight
    weights = weights / weights.sum(dim=1, keepdim=True)
    projection, eigenvalues = eigenfunctions(AnchorGraph(graph.anchors, 1.0, weights, weights.sum(dim=0)), count=8)
    functions = weights @ projection
    torch.testing.assert_close(projection[17], (functions[5] + 2 * functions[6]) / 3 / eigenvalues)


def test_more_functions_than_anchors_are_refused():
    graph = build_graph(draw_features(), anchors=6, nearest=3, seed=0)
    assert eigenfunctions(graph, count=5)[0].shape == (6, 5)
    with pytest.raises(TrainingError, match="found 5 eigenvectors of the graph on 6 anchors, 6 are needed"):
        eigenfunctions(graph, count=6)


def test_images_that_are_their_own_anchors_have_a_width():
    features = draw_features(8)
    graph = build_graph(features, anchors=8, nearest=1, seed=0)
    assert graph.width > 0
    torch.testing.assert_close(graph.weights.sum(dim=1), torch.ones(8, dtype=torch.float64))
