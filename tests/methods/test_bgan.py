"""BGAN: the loss of pairs by hand and by loops, the terms, the continuation, whom each loss reaches."""

import math

import pytest
import torch

from nsh.methods.bgan import SLOPES, Bgan, neighbourhood, slope
from nsh.objectives.graphs.neighbourhoods import similar_images

PARAMETERS = {"epochs": 5, "batch": 8, "near": 4, "alike": 3, "hidden": 16}
ROWS = torch.tensor([3, 20, 7, 11, 40, 5])


@pytest.fixture
def data(draw_clusters):
    return draw_clusters()


@pytest.fixture
def objective(data):
    return Bgan(**PARAMETERS).objective(data, bits=5, seed=0)


def test_pairs_by_hand():
    codes, signs = torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    assert neighbourhood(codes, signs).item() == pytest.approx(0.5)


def test_slopes_stand_in_five_stages_of_equal_length():
    assert [slope(step / 10) for step in range(11)] == [one for one in SLOPES for _ in range(2)] + [10]


def norm(values):
    """Batch normalisation without learned scale and shift, column by column."""
    columns = []
    for column in zip(*values, strict=True):
        mean = sum(column) / len(column)
        variance = sum((x - mean) ** 2 for x in column) / len(column)
        columns.append([(x - mean) / math.sqrt(variance + 1e-5) for x in column])
    return [list(row) for row in zip(*columns, strict=True)]


def elu(values):
    return [[x if x > 0 else math.exp(x) - 1 for x in row] for row in values]


def linear(layer, values):
    weight, bias = layer.weight.tolist(), layer.bias.tolist()
    return [
        [sum(w * x for w, x in zip(line, row, strict=True)) + b for line, b in zip(weight, bias, strict=True)]
        for row in values
    ]


def mean_square(one, other):
    pairs = [(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)]
    return sum((a - b) ** 2 for a, b in pairs) / len(pairs)


def slow_terms(objective, data, rows, bits=5):
    """Image by image, at the first slope."""
    head = objective.head
    real = [((torch.from_numpy(data.features[row]) - head.mean) / head.scale).tolist() for row in rows]
    codes = [[math.tanh(a) for a in row] for row in linear(head.linear, real)]
    similar = similar_images(torch.from_numpy(data.features), near=4, alike=3)
    graph = [
        (sum(a * b for a, b in zip(codes[i], codes[j], strict=True)) / bits - (1 if similar[one, other] else -1)) ** 2
        for i, one in enumerate(rows)
        for j, other in enumerate(rows)
    ]
    first, _, _, second, _, _, last = objective.generator
    made = linear(last, elu(norm(linear(second, elu(norm(linear(first, codes)))))))
    seen, seen_made = (elu(linear(objective.look[2], elu(linear(objective.look[0], x)))) for x in (real, made))
    right, wrong = ([1 / (1 + math.exp(-x[0])) for x in linear(objective.judge, y)] for y in (seen, seen_made))
    return {
        "graph": sum(graph) / len(graph),
        "quantisation": mean_square(codes, [[1 if h > 0 else -1 for h in row] for row in codes]),
        "content": mean_square(seen, seen_made),
        "copy": mean_square(made, real),
        "critic": sum(-math.log(p) for p in right) / len(rows) + sum(-math.log(1 - p) for p in wrong) / len(rows),
        "generator": sum(-math.log(p) for p in wrong) / len(rows),
        "critic_real": sum(right) / len(rows),
        "critic_fake": sum(wrong) / len(rows),
    }


def test_the_terms_equal_the_loops(objective, data):
    expected = slow_terms(objective, data, ROWS.tolist())
    terms = objective.terms(torch.from_numpy(data.features)[ROWS], ROWS)
    assert {name: terms[name].item() for name in expected} == pytest.approx(expected, rel=1e-4)
    encoder = 10 * (expected["graph"] + expected["quantisation"])
    game = expected["critic"] + expected["generator"] + 3.33 * expected["content"] + expected["copy"]
    assert terms["loss"].item() == pytest.approx(encoder + game, rel=1e-4)


def learned(objective, data, term):
    """Which parts have a gradient of a term."""
    objective.zero_grad()
    objective.terms(torch.from_numpy(data.features)[ROWS], ROWS)[term].backward()
    return {
        name
        for name in ("head", "generator", "look", "judge")
        if any(w.grad is not None and w.grad.abs().sum() > 0 for w in getattr(objective, name).parameters())
    }


@pytest.mark.parametrize(
    ("term", "parts"),
    [
        ("graph", {"head"}),
        ("quantisation", {"head"}),
        ("content", {"head", "generator"}),
        ("copy", {"head", "generator"}),
        ("generator", {"head", "generator"}),
        ("critic", {"look", "judge"}),
    ],
)
def test_a_loss_reaches_those_who_minimise_it(objective, data, term, parts):
    assert learned(objective, data, term) == parts


def test_the_slope_rises_while_it_trains(objective, data):
    inputs = torch.from_numpy(data.features)[ROWS]
    with torch.no_grad():
        losses = [objective.terms(inputs, ROWS)["quantisation"].item() for _ in range(5 * 7)]
    assert [losses[step] for step in (0, 7, 14, 21, 28)] == sorted(losses, reverse=True)[::7]
    assert len(set(losses)) == 5


def test_where_the_backbone_learns_copies_are_of_the_stored_features(objective, data):
    views = [torch.from_numpy(data.features[10 + 6 * place : 16 + 6 * place]) for place in range(2)]
    tuned = objective.tune(ROWS, *views)
    made = [objective.generator(objective.head(view).tanh()) for view in views]
    real = objective.head.standardise(torch.from_numpy(data.features)[ROWS])
    torch.testing.assert_close(tuned["copy"], sum((one - real).square().mean() for one in made) / 2)
