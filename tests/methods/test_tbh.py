"""TBH: the graph against a loop, the two sides of a critic, where each gradient goes."""

import math

import pytest
import torch
from torch import nn

from nsh.methods.tbh import Tbh, criticise, normalised_graph
from nsh.objectives.noise import Noise

PARAMETERS = {"epochs": 2, "batch": 8, "learning_rate": 1e-3, "hidden": 16, "latent": 7}


def slow_graph(bits):
    count, length = len(bits), len(bits[0])
    similarity = [
        [(1 - sum(a != b for a, b in zip(bits[i], bits[j], strict=True)) / length) ** 1.4 for j in range(count)]
        for i in range(count)
    ]
    degree = [sum(row) for row in similarity]
    return [[similarity[i][j] / math.sqrt(degree[i] * degree[j]) for j in range(count)] for i in range(count)]


def test_the_graph_equals_the_loop():
    bits = (torch.rand(9, 6, generator=torch.Generator().manual_seed(0)) > 0.5).float()
    torch.testing.assert_close(normalised_graph(bits), torch.tensor(slow_graph(bits.tolist())))


def test_opposite_codes_are_not_joined_and_have_a_finite_gradient():
    bits = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], requires_grad=True)
    graph = normalised_graph(bits)
    assert torch.equal(graph, torch.eye(2))
    graph.sum().backward()
    assert bool(bits.grad.isfinite().all())


def test_a_critic_descends_where_the_one_it_judges_climbs():
    critic = nn.Linear(3, 1)
    made, wanted = torch.randn(5, 3, requires_grad=True), torch.randn(5, 3)
    loss = criticise(critic, made, wanted)
    expected = 0.0
    for row, label in [*((row, 0) for row in made), *((row, 1) for row in wanted)]:
        chance = 1 / (1 + math.exp(-critic(row).item()))
        expected -= math.log(chance if label else 1 - chance) / 5
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    straight = made.detach().clone().requires_grad_()
    other = nn.Linear(3, 1)
    other.load_state_dict(critic.state_dict())
    plain = nn.functional.softplus(other(straight)).mean() + nn.functional.softplus(-other(wanted)).mean()
    plain.backward()
    torch.testing.assert_close(made.grad, -straight.grad)
    torch.testing.assert_close(critic.weight.grad, other.weight.grad)


def test_a_blind_critic_loses_two_coin_tosses():
    critic = nn.Linear(3, 1)
    nn.init.zeros_(critic.weight)
    nn.init.zeros_(critic.bias)
    loss = criticise(critic, torch.randn(4, 3), torch.randn(4, 3))
    assert loss.item() == pytest.approx(2 * math.log(2))


def hide(head, embeddings):
    return head.hide(head.standardise(embeddings))


def test_the_reconstruction_is_the_decoder_on_the_convolved_latents(draw_clusters):
    data = draw_clusters()
    objective = Tbh(**PARAMETERS).objective(data, bits=5, seed=0)
    inputs, targets = torch.from_numpy(data.features[:16]).split(8)
    terms = objective.terms(inputs, targets)
    bits = (objective.head(inputs) > 0).float()
    latents = objective.latent(hide(objective.head, inputs)).sigmoid()
    mixed = (torch.tensor(slow_graph(bits.tolist())) @ objective.convolution(latents)).sigmoid()
    error = (objective.decoder(mixed) - objective.head.standardise(targets)).square().sum() / 2
    torch.testing.assert_close(terms["reconstruction"], error)
    torch.testing.assert_close(terms["loss"], terms["reconstruction"] + terms["critics"])


def say_which(critic, made, wanted):
    """Mean of -log(1 - p) of the made ones plus mean of -log p of the wanted ones."""
    chances = [[1 / (1 + math.exp(-critic(row).item())) for row in rows] for rows in (made, wanted)]
    return sum(-math.log(1 - p) - math.log(q) for p, q in zip(*chances, strict=True)) / len(made)


def test_one_critic_judges_bits_by_coins_and_the_other_latents_by_uniform_noise(draw_clusters):
    data = draw_clusters()
    objective = Tbh(**PARAMETERS).objective(data, bits=5, seed=7)
    features, draws = torch.from_numpy(data.features[:8]), Noise(seed=7)
    bits = (objective.head(features) > 0).float()
    mixed = objective.convolution(objective.latent(hide(objective.head, features)).sigmoid())
    latents = (torch.tensor(slow_graph(bits.tolist())) @ mixed).sigmoid()
    coins, noise = (draws.uniform(8, 5) > 0.5).float(), draws.uniform(8, 7)
    expected = say_which(objective.code_critic, bits, coins) + say_which(objective.latent_critic, latents, noise)
    assert objective.terms(features, features)["critics"].item() == pytest.approx(expected, rel=1e-5)


def test_the_gradient_of_the_bits_is_handed_on_to_their_chances(draw_clusters):
    data = draw_clusters()
    objective = Tbh(**PARAMETERS).objective(data, bits=5, seed=0)
    features = torch.from_numpy(data.features[:8])
    objective.terms(features, features)["reconstruction"].backward()
    hidden = hide(objective.head, features).detach()
    chances = objective.head.linear(hidden).sigmoid().detach()
    bits = (chances > 0.5).float().requires_grad_()
    latents = (normalised_graph(bits) @ objective.convolution(objective.latent(hidden).sigmoid())).sigmoid()
    ((objective.decoder(latents) - objective.head.standardise(features)).square().sum() / 2).backward()
    expected = (bits.grad * chances * (1 - chances)).T @ hidden
    torch.testing.assert_close(objective.head.linear.weight.grad, expected)


def test_the_bits_learn_through_the_graph_and_from_their_critic(draw_clusters):
    data = draw_clusters()
    for term in ("reconstruction", "critics"):
        objective = Tbh(**PARAMETERS).objective(data, bits=5, seed=0)
        features = torch.from_numpy(data.features[:8])
        objective.terms(features, features)[term].backward()
        assert float(objective.head.linear.weight.grad.abs().sum()) > 0
