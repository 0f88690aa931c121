"""AGH: bits of the whole graph's eigenvectors, and cuts that no other cuts beat."""

import numpy as np
import pytest
import torch
from tests.methods.closed_form import draw_classes, no_loop

from nsh.errors import TrainingError
from nsh.methods.agh import Agh, find_cuts
from nsh.objectives.graphs.anchors import AnchorGraph, build_graph, eigenfunctions, inverse
from nsh.objectives.heads.linear import unit_features


def fit(data, *, bits=6, layers=1, anchors=20, nearest=3, seed=0):
    rows = []
    method = Agh(layers=layers, anchors=anchors, nearest=nearest)
    return method.fit(data, bits=bits, seed=seed, report=rows.append, loop=no_loop), rows


def whole_graph(data, seed=0):
    graph = build_graph(unit_features(data), anchors=20, nearest=3, seed=seed)
    return graph, (graph.weights @ torch.diag(inverse(graph.mass)) @ graph.weights.T).numpy()


def logits_of(head, data):
    return head(torch.from_numpy(data.features)).detach().numpy()


def test_one_layer_bits_are_the_signs_of_the_whole_graphs_eigenvectors():
    data = draw_classes()
    _, adjacency = whole_graph(data)
    _, vectors = np.linalg.eigh(adjacency)
    logits = logits_of(fit(data)[0], data)
    for bit, vector in enumerate(vectors[:, ::-1].T[1:7]):
        expected = vector * np.sqrt(120) * np.sign(vector @ logits[:, bit])
        np.testing.assert_allclose(logits[:, bit], expected, atol=1e-4)


def roughness(adjacency, values):
    """f^T L f as the sum over the edges."""
    return sum(
        adjacency[i, j] * (values[i] - values[j]) ** 2 / 2 for i in range(len(values)) for j in range(len(values))
    )


def test_cuts_make_the_second_layer_as_smooth_as_a_search_finds():
    """b- follows from b+ by 1^T f = 0, so a search along b+ is one along all allowed pairs."""
    data = draw_classes(count=60)
    graph, adjacency = whole_graph(data)
    functions = graph.weights @ eigenfunctions(graph, count=3)[0]
    above, below = find_cuts(graph, functions)

    def second(y, cut):
        positive = y > 0
        other = (positive.sum() * cut - np.abs(y).sum()) / (~positive).sum()
        return np.where(positive, y - cut, other - y), other

    for k, y in enumerate(functions.T.numpy()):
        found, other = second(y, float(above[k]))
        assert float(below[k]) == pytest.approx(other)
        assert found.sum() == pytest.approx(0, abs=1e-9)
        best = roughness(adjacency, found)
        for step in (-0.5, -0.1, -1e-3, 1e-3, 0.1, 0.5):
            assert roughness(adjacency, second(y, float(above[k]) + step)[0]) > best


def test_two_layers_give_each_function_a_sign_and_a_side_of_its_cut():
    data = draw_classes()
    graph, _ = whole_graph(data)
    functions = (graph.weights @ eigenfunctions(graph, count=3)[0]).numpy()
    above, below = find_cuts(graph, torch.from_numpy(functions))
    logits = logits_of(fit(data, layers=2)[0], data)
    np.testing.assert_allclose(logits[:, :3], functions, atol=1e-4)
    for i, row in enumerate(functions):
        for k, y in enumerate(row):
            expected = y - float(above[k]) if y > 0 else float(below[k]) - y
            assert logits[i, 3 + k] == pytest.approx(expected, abs=1e-4)


def test_an_odd_length_leaves_out_the_last_second_bit():
    data = draw_classes()
    odd, even = (logits_of(fit(data, bits=bits, layers=2)[0], data) for bits in (5, 6))
    np.testing.assert_allclose(odd, even[:, :5], atol=1e-6)
    assert logits_of(fit(data, bits=1, layers=2)[0], data).shape == (120, 1)


def test_where_the_sides_share_no_edge_the_cuts_are_their_means():
    weights = torch.block_diag(torch.tensor([[0.8], [0.8]]) / 0.8, torch.tensor([[0.3, 0.7], [0.6, 0.4], [0.5, 0.5]]))
    weights = weights.double()
    graph = AnchorGraph(torch.eye(3, dtype=torch.float64), 1.0, weights, weights.sum(dim=0))
    y = torch.tensor([[1.2], [1.3], [-0.8], [-0.9], [-0.8]], dtype=torch.float64)
    above, below = find_cuts(graph, y)
    assert float(above) == pytest.approx(1.25)
    assert float(below) == pytest.approx(-2.5 / 3)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_loss_is_the_roughness_of_a_function(layers):
    data = draw_classes(count=60)
    graph, adjacency = whole_graph(data)
    [row] = fit(data, layers=layers)[1]
    functions = (graph.weights @ eigenfunctions(graph, count=6 // layers)[0]).numpy()
    expected = np.mean([roughness(adjacency, y) / 60 for y in functions.T])
    assert row == {"epoch": 1, "loss": pytest.approx(expected)}


def test_as_many_bits_as_the_graph_has_functions_are_the_most():
    data = draw_classes()
    assert fit(data, bits=19)[0].bits == 19
    with pytest.raises(TrainingError, match="20 are needed: choose fewer bits, more anchors"):
        fit(data, bits=20)
    assert fit(data, bits=38, layers=2)[0].bits == 38


def test_fewer_images_than_anchors_are_refused():
    with pytest.raises(TrainingError, match="found 15 different training images for 20 anchors"):
        fit(draw_classes(count=15))


def test_codes_tell_groups_apart_that_lie_apart():
    data = draw_classes()
    groups = np.arange(120) % 5
    codes = logits_of(fit(data, bits=8)[0], data) > 0
    distances = (codes[:, None] != codes[None]).sum(axis=2)
    same = groups[:, None] == groups[None]
    assert distances[same].mean() < distances[~same].mean() - 0.5
