"""GreedyHash: the loss from its equations, and the gradient that passes the sign."""

import torch

from nsh.methods.greedyhash import GreedyHash
from nsh.objectives.graphs.cosine_structure import cosine_structure

PARAMETERS = {"epochs": 2, "batch": 8, "learning_rate": 1e-3, "penalty": 0.1}


def build(data, **changes):
    return GreedyHash(**PARAMETERS | changes).objective(data, bits=6, seed=0)


def test_the_loss_is_the_structure_of_the_bits_and_the_weighted_penalty(draw_clusters):
    data = draw_clusters()
    objective = build(data)
    inputs, targets = torch.from_numpy(data.features[:16]).split(8)
    terms = objective.terms(inputs, targets)
    hidden = objective.head(inputs)
    penalty = sum(abs(abs(value) - 1) ** 3 for row in hidden.tolist() for value in row) / hidden.numel()
    torch.testing.assert_close(terms["structure"], cosine_structure(torch.where(hidden > 0, 1.0, -1.0), targets))
    torch.testing.assert_close(terms["penalty"].item(), penalty)
    torch.testing.assert_close(terms["loss"], terms["structure"] + 0.1 * terms["penalty"])


def test_the_gradient_of_the_bits_is_handed_on_to_the_logits_unchanged(draw_clusters):
    data = draw_clusters()
    objective = build(data, penalty=0.0)
    features = torch.from_numpy(data.features[:8])
    objective.terms(features, features)["loss"].backward()
    codes = torch.where(objective.head(features) > 0, 1.0, -1.0).detach().requires_grad_()
    cosine_structure(codes, features).backward()
    expected = codes.grad.T @ objective.head.standardise(features)
    torch.testing.assert_close(objective.head.linear.weight.grad, expected)
