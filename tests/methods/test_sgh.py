"""SGH: drawn bits and their gradient in closed form, the loss written out."""

import math

import pytest
import torch

from nsh.methods.sgh import Sgh, draw_bits
from nsh.objectives.noise import Noise

PARAMETERS = {"epochs": 2, "batch": 8, "learning_rate": 1e-2, "alpha": 0.1, "beta": 0.01}


def test_a_bit_is_one_as_often_as_its_chance_says():
    logits = torch.tensor([[-1.0, 0.0, 2.0]]).repeat(20_000, 1)
    bits = draw_bits(logits, Noise(seed=0).uniform(*logits.shape))
    assert set(bits.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(bits.mean(0), logits[0].sigmoid(), atol=0.01, rtol=0)


def test_the_gradient_is_that_of_the_chance():
    logits = torch.tensor([[-1.0, 0.5]], requires_grad=True)
    (draw_bits(logits, torch.tensor([[0.9, 0.1]])) * torch.tensor([[2.0, 3.0]])).sum().backward()
    p = [1 / (1 + math.exp(1)), 1 / (1 + math.exp(-0.5))]
    expected = [2 * p[0] * (1 - p[0]), 3 * p[1] * (1 - p[1])]
    assert logits.grad[0].tolist() == pytest.approx(expected)


def test_the_loss_is_written_out(draw_clusters):
    data = draw_clusters()
    objective = Sgh(**PARAMETERS).objective(data, bits=5, seed=4)
    inputs, targets = torch.from_numpy(data.features[:16]).split(8)
    terms = objective.terms(inputs, targets)
    wanted = objective.head.standardise(targets).tolist()
    logits, noise = objective.head(inputs).tolist(), Noise(seed=4).uniform(8, 5).tolist()
    weight, shift = objective.decoder.weight.tolist(), objective.decoder.bias.tolist()
    error = length = 0.0
    for row, codes, thresholds in zip(wanted, logits, noise, strict=True):
        chances = [1 / (1 + math.exp(-value)) for value in codes]
        bits = [float(p > xi) for p, xi in zip(chances, thresholds, strict=True)]
        drawn = [sum(w * b for w, b in zip(line, bits, strict=True)) + s for line, s in zip(weight, shift, strict=True)]
        error += sum((a - b) ** 2 for a, b in zip(drawn, row, strict=True)) / 2
        length -= sum(math.log(p if b else 1 - p) for p, b in zip(chances, bits, strict=True))
    size = sum(one.square().sum().item() for one in (objective.decoder.weight, objective.head.linear.weight)) / 2
    assert terms["reconstruction"].item() == pytest.approx(error / 8, rel=1e-4)
    assert terms["length"].item() == pytest.approx(length / 8, rel=1e-4)
    assert terms["size"].item() == pytest.approx(size / 8, rel=1e-4)
    total = terms["reconstruction"] + 0.1 * terms["length"] + 0.01 * terms["size"]
    torch.testing.assert_close(terms["loss"], total)


def test_every_step_draws_anew(draw_clusters):
    data = draw_clusters()
    objective = Sgh(**PARAMETERS).objective(data, bits=5, seed=4)
    features = torch.from_numpy(data.features[:8])
    assert objective.terms(features, features)["loss"] != objective.terms(features, features)["loss"]
