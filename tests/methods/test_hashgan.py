"""HashGAN: the losses by hand and by loops, the start with the critic alone, whom each loss reaches."""

import math

import pytest
import torch

from nsh.methods.hashgan import Hashgan, dependence, entropy, uncertainty
from nsh.objectives.noise import Noise

SURE = 100.0  # a logit whose bit has no entropy


def nats(chance):
    return -sum(p * math.log(p) for p in (chance, 1 - chance) if p > 0)


def chance(logit):
    return 1 / (1 + math.exp(-logit))


@pytest.mark.parametrize(
    ("logits", "certainty", "balance"),
    [
        ([[0.0], [0.0]], math.log(2), math.log(2)),
        ([[SURE], [-SURE]], 0, math.log(2)),
        ([[SURE], [SURE]], 0, 0),
    ],
)
def test_entropies_by_hand(logits, certainty, balance):
    logits = torch.tensor(logits)
    assert uncertainty(logits).item() == pytest.approx(certainty, abs=1e-6)
    assert entropy(logits.sigmoid().mean(dim=0)).mean().item() == pytest.approx(balance, abs=1e-5)


def test_uncertainty_equals_the_definition_and_stands_large_logits():
    logits = torch.linspace(-5, 5, 11, dtype=torch.float64)
    expected = sum(nats(chance(one)) for one in logits.tolist()) / 11
    assert uncertainty(logits).item() == pytest.approx(expected)
    large = torch.tensor([1e4, -1e4], requires_grad=True)
    uncertainty(large).backward()
    assert bool(large.grad.isfinite().all())


def test_the_entropy_of_certain_bits_has_a_finite_gradient():
    chances = torch.tensor([0.0, 1.0, 0.5], requires_grad=True)
    entropy(chances).sum().backward()
    assert bool(chances.grad.isfinite().all())


def test_orthonormal_rows_are_independent_and_others_are_not():
    assert dependence(torch.eye(6)[:4]).item() == 0
    weight = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    rows = weight.tolist()
    expected = sum(
        (sum(a * b for a, b in zip(rows[i], rows[j], strict=True)) - (i == j)) ** 2 for i in range(3) for j in range(3)
    )
    assert dependence(weight).item() == pytest.approx(expected / 9, rel=1e-5)


def make(data, **changes):
    return Hashgan(**{"epochs": 2, "batch": 8, "hidden": 16, "alone": 0.0} | changes).objective(data, bits=5, seed=3)


def views(data, count=8):
    return [torch.from_numpy(data.views[:count, place]).float() for place in range(2)]


def slow_terms(objective, first, second, seed=3):
    objective.noise = again = Noise(seed=seed)
    real, moved = (objective.hide(objective.head.standardise(view)) for view in (first, second))
    asked = (again.uniform(8, 5) > 0.5).float()
    made = objective.generator(torch.cat([again.uniform(8, 128), asked], dim=1))
    fake, seen = objective.hide(made), objective.hide(made)
    codes, others, found = (
        [[chance(a) for a in row] for row in objective.head.linear(hidden).tolist()] for hidden in (real, moved, fake)
    )
    right, wrong = ([chance(x) for x in objective.judge(hidden).flatten().tolist()] for hidden in (real, fake))
    every = [(a, b) for x, y in zip(codes, others, strict=True) for a, b in zip(x, y, strict=True)]
    missed = [(a - b) ** 2 for x, y in zip(found, asked.tolist(), strict=True) for a, b in zip(x, y, strict=True)]
    return {
        "critic": sum(-math.log(p) - math.log(1 - q) for p, q in zip(right, wrong, strict=True)) / 8,
        "generator": (seen.mean(dim=0) - real.mean(dim=0)).square().mean().item(),
        "certainty": sum(nats(p) for row in codes for p in row) / 40,
        "balance": -sum(nats(sum(column) / 8) for column in zip(*codes, strict=True)) / 5,
        "consistency": sum((a - b) ** 2 for a, b in every) / 40,
        "independence": dependence(objective.head.linear.weight).item(),
        "recovery": sum(missed) / 8,
    }


def test_the_terms_equal_the_loops(draw_clusters):
    data = draw_clusters()
    objective, pair = make(data), views(data)
    terms = objective(*pair)
    expected = slow_terms(objective, *pair)
    assert {name: terms[name].item() for name in expected} == pytest.approx(expected, rel=1e-4)
    loss = sum(expected.values()) - 0.9 * (expected["certainty"] + expected["recovery"])
    assert terms["loss"].item() == pytest.approx(loss, rel=1e-4)


def test_the_code_learns_nothing_while_the_critic_is_alone(draw_clusters):
    data = draw_clusters()
    objective = make(data, alone=0.5)  # of 14 steps
    learned = []
    for _ in range(14):
        objective.zero_grad()
        objective(*views(data))["loss"].backward()
        learned.append(bool(objective.head.linear.weight.grad.abs().sum() > 0))
    assert learned == [False] * 7 + [True] * 7


@pytest.mark.parametrize(
    ("term", "parts"),
    [
        ("critic", {"head", "judge"}),
        ("generator", {"generator"}),
        ("certainty", {"head"}),
        ("balance", {"head"}),
        ("consistency", {"head"}),
        ("independence", {"head"}),
        ("recovery", {"head"}),
    ],
)
def test_a_loss_reaches_those_who_minimise_it(draw_clusters, term, parts):
    data = draw_clusters()
    objective = make(data)
    objective(*views(data))[term].backward()
    assert parts == {
        name
        for name in ("head", "judge", "generator")
        if any(w.grad is not None and w.grad.abs().sum() > 0 for w in getattr(objective, name).parameters())
    }
