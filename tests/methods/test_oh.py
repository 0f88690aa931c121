"""OH against its formulas in loops: what a code recalls, both cross entropies, the queue and the running average."""

import math

import numpy as np
import pytest
import torch

from nsh.methods.oh import Oh

PARAMETERS = {
    "epochs": 2,
    "batch": 8,
    "learning_rate": 1e-3,
    "hidden": 16,
    "d_z": 5,
    "queue": 20,
    "tau_s": 0.3,
    "tau_c": 0.25,
    "own": 0.5,
    "average": 0.75,
}


def build(data, **changes):
    objective = Oh(**PARAMETERS | changes).objective(data, bits=6, seed=0)
    views = [torch.from_numpy(data.views[start : start + 8, view].astype(float)).float() for start, view in STEPS]
    return objective, views


STEPS = [(0, 0), (0, 1), (8, 0), (8, 1), (16, 0), (16, 1)]  # first image and view: two views of three batches


def unit(vector):
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if length else list(vector)


def slow_outputs(weights, embeddings):
    """Codes of ±1 and unit latents, as lists, from the weights of a state dict."""
    inputs = ((embeddings - weights["head.mean"]) / weights["head.scale"]).double()
    hidden = (inputs @ weights["head.hidden.weight"].double().T + weights["head.hidden.bias"].double()).relu()
    logits = hidden @ weights["head.linear.weight"].double().T + weights["head.linear.bias"].double()
    latents = hidden @ weights["latent.weight"].double().T + weights["latent.bias"].double()
    return [[1 if logit > 0 else -1 for logit in row] for row in logits.tolist()], [
        unit(row) for row in latents.tolist()
    ]


def slow_image(code, latent, queue):
    """P of one image; `queue` has pairs of a code and a latent."""
    matching = [sum(a == b for a, b in zip(code, kept, strict=True)) / len(code) for kept, _ in queue]
    shares = [math.exp(share / 0.3) for share in matching]
    recalled = [0.0] * len(latent)
    for share, (_, kept) in zip(shares, queue, strict=True):
        for place, value in enumerate(kept):
            recalled[place] += share / sum(shares) * value
    return unit([one + 0.5 * other for one, other in zip(unit(recalled), latent, strict=True)])


def dot(first, second):
    return sum(a * b for a, b in zip(first, second, strict=True))


def slow_cross_entropy(query, positive, negatives):
    scores = [dot(query, positive)] + [dot(query, negative) for negative in negatives]
    return math.log(sum(math.exp(score / 0.25) for score in scores)) - scores[0] / 0.25


class Slow:
    """The objective step by step; only the newest 20 of the queue count."""

    def __init__(self, weights):
        self.average = weights
        self.queue = []

    def step(self, weights, first, second):
        codes, latents = slow_outputs(weights, first)
        key_codes, key_latents = slow_outputs(self.average, second)
        held = [(code, latent) for code, latent, _ in self.queue]
        queries = [slow_image(*seen, held) for seen in zip(codes, latents, strict=True)]
        keys = [slow_image(*seen, held) for seen in zip(key_codes, key_latents, strict=True)]
        queued = [image for _, _, image in self.queue]
        momentum = np.mean([slow_cross_entropy(query, keys[i], queued) for i, query in enumerate(queries)])
        batch = np.mean(
            [slow_cross_entropy(query, keys[i], keys[:i] + keys[i + 1 :]) for i, query in enumerate(queries)]
        )
        self.queue = (self.queue + list(zip(key_codes, key_latents, keys, strict=True)))[-20:]
        return momentum, batch


def weights_of(objective):
    return {name: value.clone() for name, value in objective.encoder.state_dict().items()}


def test_three_steps_equal_the_loops_and_the_oldest_leave_the_queue(draw_clusters):
    objective, views = build(draw_clusters())
    slow = Slow(weights_of(objective))
    for step in range(3):
        terms = objective(views[2 * step], views[2 * step + 1])
        momentum, batch = slow.step(weights_of(objective), views[2 * step], views[2 * step + 1])
        assert terms["momentum"].item() == pytest.approx(momentum, abs=1e-4)
        assert terms["batch"].item() == pytest.approx(batch, abs=1e-4)
        torch.testing.assert_close(terms["loss"], terms["momentum"] + terms["batch"])
    assert len(objective.memory.held()[0]) == len(slow.queue) == 20


def test_of_an_empty_queue_an_image_is_its_latent_and_nothing_is_queued_against_it(draw_clusters):
    objective, (first, second, *_) = build(draw_clusters())
    terms = objective(first, second)
    assert terms["momentum"].item() == 0
    scores = objective.encoder(first)[1] @ objective.encoder(second)[1].T / 0.25
    torch.testing.assert_close(terms["batch"], torch.nn.functional.cross_entropy(scores, torch.arange(8)))


def test_the_average_begins_as_the_encoder_and_follows_it(draw_clusters):
    objective, (first, second, *_) = build(draw_clusters())
    objective(first, second)
    before = weights_of(objective)["latent.weight"]
    torch.testing.assert_close(objective.average.latent.weight, before)
    with torch.no_grad():
        objective.encoder.latent.weight.add_(1.0)
    objective(first, second)
    torch.testing.assert_close(objective.average.latent.weight, before + 0.25)


def test_the_gradient_reaches_bits_and_latents_of_the_first_view_alone(draw_clusters):
    objective, views = build(draw_clusters())
    objective(views[0], views[1])
    first, second = (view.clone().requires_grad_() for view in views[2:4])
    objective(first, second)["loss"].backward()
    for layer in (objective.head.linear, objective.head.hidden, objective.encoder.latent):
        assert float(layer.weight.grad.abs().sum()) > 0
    assert float(first.grad.abs().sum()) > 0
    assert second.grad is None
    assert all(parameter.grad is None for parameter in objective.average.parameters())


def test_a_bit_s_gradient_is_that_of_its_chance(draw_clusters):
    """d code / d logit = 2 p (1 - p): a matching bit is worth p, not p - 1/2."""
    objective, (first, *_) = build(draw_clusters())
    logits = objective.head(first)
    codes, _ = objective.encoder(first)
    (found,) = torch.autograd.grad(codes.sum(), objective.head.linear.bias)
    chances = logits.sigmoid()
    torch.testing.assert_close(found, (2 * chances * (1 - chances)).sum(dim=0))
