"""DGH: every step against loops, its codes against all codes there are, and how new images get theirs."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from tests.methods.closed_form import draw_classes, no_loop
from torch.nn import functional

from nsh.errors import TrainingError
from nsh.methods.dgh import Dgh, climb, find_codes, nearest_target, start
from nsh.objectives.graphs.anchors import AnchorGraph, build_graph, eigenfunctions, inverse
from nsh.objectives.heads.linear import unit_features


def draw_graph(count=120, anchors=20, seed=0):
    return build_graph(unit_features(draw_classes(count, seed=seed)), anchors=anchors, nearest=3, seed=0)


def draw_code(count, bits, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2, (count, bits), generator=generator).double() * 2 - 1


def fit(data, *, bits=6, anchors=20, nearest=3, rho=2.0, seed=0):
    rows = []
    method = Dgh(anchors=anchors, nearest=nearest, rho=rho)
    return method.fit(data, bits=bits, seed=seed, report=rows.append, loop=no_loop), rows


def dense(graph):
    """A = Z Lambda^-1 Z^T, whole."""
    return (graph.weights @ torch.diag(inverse(graph.mass)) @ graph.weights.T).numpy()


def targets(code):
    return nearest_target(code, torch.Generator().manual_seed(0))


def value(adjacency, code, pull):
    """tr(B^T A B) + tr(B^T pull), what the B-step climbs, of one code or many [..., n, bits]."""
    return (code * (adjacency @ code + pull)).sum(axis=(-2, -1))


def best_value(adjacency, code, rho):
    """The objective with the best Y: tr(B^T Y) is then sqrt(n) times the sum of the singular values of centred B."""
    centred = code - code.mean(axis=-2, keepdims=True)
    singular = np.linalg.svd(centred, compute_uv=False).sum(axis=-1)
    return (code * (adjacency @ code)).sum(axis=(-2, -1)) + rho * code.shape[-2] ** 0.5 * singular


def slow_climb(adjacency, code, pull):
    """Section 3.1, an entry at a time; also every code on the way."""
    path = [code]
    while len(path) == 1 or (path[-1] != path[-2]).any():
        after = path[-1].copy()
        for i, k in product(*map(range, code.shape)):
            gradient = 2 * sum(a * b for a, b in zip(adjacency[i], path[-1][:, k], strict=True)) + pull[i, k]
            if abs(gradient) > 1e-9:
                after[i, k] = 1.0 if gradient > 0 else -1.0
        path.append(after)
    return path


def test_a_climb_equals_the_loop_and_rises_with_every_change():
    graph = draw_graph(count=30, anchors=8)
    adjacency, code = dense(graph), draw_code(30, 3)
    pull = 0.3 * targets(draw_code(30, 3, seed=1))
    path = slow_climb(adjacency, code.numpy(), pull.numpy())
    assert len(path) > 3, "more than one step, or nothing is tested"
    values = [value(adjacency, step, pull.numpy()) for step in path[:-1]]
    assert all(later > earlier for earlier, later in pairwise(values))
    assert np.array_equal(climb(graph, code, pull).numpy(), path[-1])


def test_a_bit_without_a_gradient_stays_what_it_is():
    weights = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    graph = AnchorGraph(torch.eye(2, dtype=torch.float64), 1.0, weights, weights.sum(dim=0))
    code = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]], dtype=torch.float64)  # A B = 0 in the first two rows
    assert torch.equal(climb(graph, code, torch.zeros(3, 2, dtype=torch.float64)), code)


@pytest.fixture(scope="module")
def all_codes():
    """All codes of 6 images in 2 bits."""
    return np.array(list(product((-1.0, 1.0), repeat=12))).reshape(-1, 6, 2)


@pytest.mark.parametrize("rho", [0.1, 1.0, 5.0])
def test_from_wherever_a_climb_ends_where_no_code_is_above_the_tangent(rho, all_codes):
    """And the best of all codes is such an end."""
    graph = draw_graph(count=6, anchors=4)
    adjacency = dense(graph)
    pull = rho * targets(draw_code(6, 2, seed=3))
    values = value(adjacency, all_codes, pull.numpy())
    best = torch.from_numpy(all_codes[values.argmax()])
    assert torch.equal(climb(graph, best, pull), best)
    for index in range(0, len(all_codes), 37):
        end = climb(graph, torch.from_numpy(all_codes[index]), pull).numpy()
        gradient = 2 * adjacency @ end + pull.numpy()
        assert (gradient * end).sum() == pytest.approx((all_codes * gradient).sum(axis=(1, 2)).max())
        assert values[index] - 1e-9 <= value(adjacency, end, pull.numpy()) <= values.max() + 1e-9


@pytest.mark.parametrize(("rho", "above"), [(0.1, 0.5), (1.0, 0.1), (5.0, 0.02)])
def test_both_steps_keep_the_best_of_all_codes_and_few_are_above_where_they_end(rho, above, all_codes):
    """With rho near 0 the best is a constant code, and it is as well that the start is far from it."""
    graph = draw_graph(count=6, anchors=4)
    adjacency = dense(graph)
    values = best_value(adjacency, all_codes, rho)

    def end_of(code, target):
        found = find_codes(graph, code, target, rho=rho, seed=0, report=lambda row: None)
        return best_value(adjacency, found.numpy(), rho)

    best = torch.from_numpy(all_codes[values.argmax()])
    assert end_of(best, targets(best)) == pytest.approx(values.max())
    code, target = start(graph, bits=2)
    end = end_of(code, target)
    assert end >= best_value(adjacency, code.numpy(), rho) - 1e-9
    assert (values > end + 1e-9).mean() < above


@pytest.mark.parametrize("rho", [0.0, 0.1, 2.0])
def test_the_reported_loss_is_that_of_equation_3_and_never_rises(rho):
    graph = draw_graph(count=60)
    adjacency, rows = dense(graph), []
    code = draw_code(60, 5)
    found = find_codes(graph, code, targets(code), rho=rho, seed=0, report=rows.append).numpy()
    assert [row["epoch"] for row in rows] == list(range(1, len(rows) + 1))
    losses = [row["loss"] for row in rows]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(losses))
    rough = sum(adjacency[i, j] * ((found[i] - found[j]) ** 2).sum() / 2 for i in range(60) for j in range(60))
    distance = ((found - targets(torch.from_numpy(found)).numpy()) ** 2).sum()
    assert losses[-1] == pytest.approx((rough + rho * distance / 2) / 300)


def test_the_codes_found_are_a_fixed_point_of_both_steps():
    graph = draw_graph()
    code, target = start(graph, bits=6)
    found = find_codes(graph, code, target, rho=2.0, seed=0, report=lambda row: None)
    assert not torch.equal(found, code)
    assert torch.equal(climb(graph, found, 2.0 * targets(found)), found)


def constant_bit(code):
    code[:, 1] = 1
    return code


def equal_bits(code):
    code[:, 2] = code[:, 0]
    code[:, 3] = -code[:, 0]
    return code


def all_constant(code):
    return torch.ones_like(code)


def independent(code):
    return code


@pytest.mark.parametrize("spoil", [independent, constant_bit, equal_bits, all_constant])
def test_the_y_step_is_feasible_and_reaches_the_sum_of_the_singular_values(spoil):
    code = spoil(draw_code(40, 5))
    target = targets(code)
    torch.testing.assert_close(target.T @ target, 40 * torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(target.sum(dim=0), torch.zeros(5, dtype=torch.float64), atol=1e-9, rtol=0)
    centred = (code - code.mean(dim=0)).numpy()
    roots = np.sqrt(np.linalg.eigvalsh(centred.T @ centred).clip(0)).sum()
    assert float((code * target).sum()) == pytest.approx(np.sqrt(40) * roots, abs=1e-4)


def test_no_other_feasible_y_is_nearer_to_the_codes():
    code = draw_code(40, 5)
    reached = float((code * targets(code)).sum())
    generator = torch.Generator().manual_seed(1)
    for size in (1e-3, 0.1, 1.0, 100.0):
        noise = targets(code) + size * torch.randn(40, 5, dtype=torch.float64, generator=generator)
        other = 40**0.5 * torch.linalg.qr(noise - noise.mean(dim=0)).Q
        other = other * (other * code).sum(dim=0).sign()
        assert float((code * other).sum()) < reached


def test_the_y_step_of_independent_bits_whitens_them():
    code = draw_code(40, 5)
    centred = (code - code.mean(dim=0)).numpy()
    eigenvalues, vectors = np.linalg.eigh(centred.T @ centred / 40)
    expected = centred @ vectors @ np.diag(eigenvalues**-0.5) @ vectors.T
    np.testing.assert_allclose(targets(code).numpy(), expected, atol=1e-9)


def test_the_start_turns_the_smoothest_functions_as_the_paper_does(monkeypatch):
    """Section 3.3: from R = I, B <- sgn(H Theta R) and R <- U V^T of Theta H^T B = U S V^T."""
    monkeypatch.setattr("nsh.methods.dgh.ROTATIONS", 7)
    graph = draw_graph()
    projection, eigenvalues = eigenfunctions(graph, count=4)
    functions, smooth = (graph.weights @ projection).numpy(), np.diag(eigenvalues.numpy())
    rotation, reached = np.eye(4), []
    for _ in range(7):
        code = np.where(functions @ smooth @ rotation > 0, 1.0, -1.0)
        left, _, right = np.linalg.svd(smooth @ functions.T @ code)
        rotation = left @ right
        reached.append(np.trace(rotation.T @ functions.T @ dense(graph) @ code))
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(reached))
    assert reached[-1] > reached[0]
    found, target = start(graph, bits=4)
    np.testing.assert_allclose(target.numpy(), functions @ rotation, atol=1e-9)
    assert np.array_equal(found.numpy(), np.where(functions @ smooth @ rotation > 0, 1, -1))
    torch.testing.assert_close(target.T @ target, 120 * torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(target.sum(dim=0), torch.zeros(4, dtype=torch.float64), atol=1e-9, rtol=0)


def test_a_new_image_gets_the_code_nearest_to_its_neighbours_codes():
    """Section 2: of all b the one with the least sum of |b - b_i|^2 A(x, x_i)."""
    data = draw_classes()
    graph = draw_graph()
    code = find_codes(graph, *start(graph, bits=3), rho=2.0, seed=0, report=lambda row: None).numpy()
    head, _ = fit(data, bits=3)
    logits = head(torch.from_numpy(data.features)).detach().numpy()
    np.testing.assert_allclose(logits, dense(graph) @ code, atol=1e-5)  # images of training are encoded as new ones are
    fresh = draw_classes(count=15, seed=5)
    rows = functional.normalize(torch.from_numpy(fresh.features).double(), dim=1).numpy()
    anchors, mass, candidates = graph.anchors.numpy(), graph.mass.numpy(), list(product((-1, 1), repeat=3))
    for x, found in zip(rows, head(torch.from_numpy(fresh.features)).detach().numpy(), strict=True):
        squared = ((anchors - x) ** 2).sum(axis=1)
        keep = squared.argsort()[:3]
        kernel = np.exp(-squared[keep] / graph.width)
        affinity = graph.weights.numpy()[:, keep] @ (kernel / kernel.sum() / mass[keep])
        costs = [(affinity * ((code - np.array(b)) ** 2).sum(axis=1)).sum() for b in candidates]
        assert candidates[int(np.argmin(costs))] == tuple(np.where(found > 0, 1, -1))


def test_a_larger_rho_gives_bits_more_balanced_and_less_alike():
    data = draw_classes(count=300)
    defects = []
    for rho in (0.01, 20.0):
        code = np.where(fit(data, rho=rho)[0](torch.from_numpy(data.features)).detach().numpy() > 0, 1.0, -1.0)
        defects.append(np.abs(code.T @ code / 300 - np.eye(6)).mean() + np.abs(code.mean(axis=0)).mean())
    assert defects[1] < 0.7 * defects[0]


def test_more_bits_than_the_graph_has_functions_are_refused():
    data = draw_classes()
    assert fit(data, bits=19)[0].bits == 19
    with pytest.raises(TrainingError, match="20 are needed: choose fewer bits, more anchors"):
        fit(data, bits=20)


def test_fewer_images_than_anchors_are_refused():
    with pytest.raises(TrainingError, match="found 15 different training images for 20 anchors"):
        fit(draw_classes(count=15))


def test_codes_tell_groups_apart_that_lie_apart():
    data = draw_classes()
    groups = np.arange(120) % 5
    codes = fit(data, bits=8)[0](torch.from_numpy(data.features)).detach().numpy() > 0
    distances = (codes[:, None] != codes[None]).sum(axis=2)
    same = groups[:, None] == groups[None]
    assert distances[same].mean() < distances[~same].mean() - 0.5
