"""BinGAN: the regularisers by hand and by loops, the critic of two logits, whom each loss reaches."""

import math

import pytest
import torch

from nsh.methods.bingan import Bingan, regularise
from nsh.objectives.adversarial.game import criticise
from nsh.objectives.noise import Noise

ALL_ONE = [[1.0, 1, 1, 1], [1, 1, 1, -1]]
FAR = 3000.0  # so that f / (|f| + 0.001) is nearly its sign


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([[FAR, -FAR], [FAR, FAR]], {"balance": 0.5, "independence": 0, "distances": 0.5}),
        ([[FAR, FAR], [FAR, FAR]], {"balance": 1, "independence": math.exp(-0.25), "distances": 0.5}),
    ],
)
def test_regularisers_by_hand(outputs, expected):
    found = regularise(torch.tensor(outputs), torch.tensor(ALL_ONE))
    assert {name: value.item() for name, value in found.items()} == pytest.approx(expected, abs=1e-5)


def slow_regularisers(outputs, wide):
    count, bits, width = len(outputs), len(outputs[0]), len(wide[0])
    soft = [[f / (abs(f) + 0.001) for f in row] for row in outputs]
    signs = [[1 if w > 0 else -1 for w in row] for row in wide]
    distances, independence = [], []
    for i in range(count):
        for j in (j for j in range(count) if j != i):
            theirs = sum(a * b for a, b in zip(signs[i], signs[j], strict=True))
            ours = sum(a * b for a, b in zip(soft[i], soft[j], strict=True))
            distances.append(abs(theirs / width - ours / bits))
            independence.append(math.exp(-abs(theirs) / (2 * width)) * abs(ours) / bits)
    means = [sum(column) / count for column in zip(*soft, strict=True)]
    balance = sum(mean**2 for mean in means) / bits
    return {
        "balance": balance,
        "independence": sum(independence) / len(independence),
        "distances": sum(distances) / len(distances),
    }


def test_regularisers_equal_the_loops():
    generator = torch.Generator().manual_seed(0)
    outputs, wide = torch.randn(7, 5, generator=generator), torch.randn(7, 9, generator=generator)
    found = regularise(outputs, wide)
    expected = slow_regularisers(outputs.tolist(), wide.tolist())
    assert {name: value.item() for name, value in found.items()} == pytest.approx(expected, rel=1e-4)


def test_regularisers_teach_the_code_and_not_the_wide_layer():
    outputs, wide = torch.zeros(4, 3, requires_grad=True), torch.randn(4, 6).requires_grad_()
    sum(regularise(outputs + 0.1 * torch.eye(4)[:, :3], wide).values()).backward()
    assert bool(outputs.grad.isfinite().all())
    assert outputs.grad.abs().sum() > 0
    assert wide.grad is None


@pytest.fixture
def objective(draw_clusters):
    return Bingan(epochs=2, batch=8, hidden=16).objective(draw_clusters(), bits=5, seed=3)


def views(data, count=8):
    return (torch.from_numpy(data.views[:count, place]).float() for place in range(2))


def test_two_logits_of_zero_cost_what_the_formula_says(objective):
    torch.nn.init.zeros_(objective.judge.weight)
    torch.nn.init.zeros_(objective.judge.bias)
    evidence = objective.weigh(torch.randn(6, 5))
    assert (criticise(evidence, evidence) / 2).item() == pytest.approx(math.log(3) - math.log(2) / 2)  # .75204


def slow_critic(objective, inputs):
    """log Z of each image, from f."""
    return [math.log(sum(math.exp(x) for x in row)) for row in objective.judge(inputs).tolist()]


def test_the_terms_equal_their_formulas(objective, draw_clusters):
    first, second = views(draw_clusters())
    terms = objective(first, second)
    again = Noise(seed=3)
    objective.noise = again
    head = objective.head
    wide, outputs = objective.apply_critic(head.standardise(first))
    made = objective.generator(again.uniform(8, 100))
    real, fake = (slow_critic(objective, f) for f in (outputs, objective.apply_critic(made)[1]))
    wanted, matched = (objective.apply_critic(x)[1].mean(dim=0) for x in (head.standardise(second), made))
    pairs = list(zip(real, fake, strict=True))
    expected = {
        "critic": sum(0.5 * (math.log1p(math.exp(x)) - x + math.log1p(math.exp(y))) for x, y in pairs) / 8,
        "generator": (wanted - matched).square().mean().item(),
        **slow_regularisers(outputs.tolist(), wide.tolist()),
    }
    assert {name: terms[name].item() for name in expected} == pytest.approx(expected, rel=1e-4)
    loss = expected["critic"] + expected["generator"] + 0.05 * expected["distances"]
    loss += 0.001 * (expected["balance"] + expected["independence"])
    assert terms["loss"].item() == pytest.approx(loss, rel=1e-4)


@pytest.mark.parametrize(
    ("term", "parts"),
    [("critic", {"head", "judge"}), ("generator", {"generator"}), ("distances", {"head"}), ("independence", {"head"})],
)
def test_a_loss_reaches_those_who_minimise_it(objective, draw_clusters, term, parts):
    objective(*views(draw_clusters()))[term].backward()
    assert parts == {
        name
        for name in ("head", "judge", "generator")
        if any(w.grad is not None and w.grad.abs().sum() > 0 for w in getattr(objective, name).parameters())
    }


def test_the_head_is_the_critic_without_dropout(objective, draw_clusters):
    features = torch.from_numpy(draw_clusters().features)
    head = objective.head
    hidden = torch.nn.functional.leaky_relu(head.first((features - head.mean) / head.scale), 0.2)
    expected = head.linear(torch.nn.functional.leaky_relu(head.second(hidden), 0.2))
    torch.testing.assert_close(head(features), expected)


def test_every_layer_begins_with_outputs_of_mean_0_and_variance_1(objective, draw_clusters):
    head, features = objective.head, torch.from_numpy(draw_clusters().features)
    hidden = torch.nn.functional.leaky_relu(head.first(head.standardise(features)), 0.2)
    for outputs in (head.first(head.standardise(features)), head.second(hidden), head(features)):
        torch.testing.assert_close(outputs.mean(dim=0), torch.zeros(outputs.shape[1]), atol=1e-5, rtol=0)
        torch.testing.assert_close(outputs.var(dim=0, correction=0), torch.ones(outputs.shape[1]))
