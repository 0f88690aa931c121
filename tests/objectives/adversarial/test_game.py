"""The losses of generator and critic against their formulas, and whom each of them reaches."""

import math

import pytest
import torch
from torch import nn

from nsh.objectives.adversarial.game import criticise, deceive, drop, frozen, match, stack, watch_critic
from nsh.objectives.noise import Noise


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def chance(logit):
    return 1 / (1 + math.exp(-logit))


def test_losses_equal_the_logarithms_of_the_chances():
    real, fake = draw(5, 1), draw(7, 1, seed=1)
    right = sum(-math.log(chance(one)) for one in real.flatten().tolist()) / 5
    wrong = sum(-math.log(1 - chance(one)) for one in fake.flatten().tolist()) / 7
    assert criticise(real, fake).item() == pytest.approx(right + wrong, rel=1e-5)
    assert deceive(fake).item() == pytest.approx(
        sum(-math.log(chance(x)) for x in fake.flatten().tolist()) / 7, rel=1e-5
    )


def test_a_blind_critic_loses_two_coin_tosses():
    assert criticise(torch.zeros(4), torch.zeros(4)).item() == pytest.approx(1.3863, abs=1e-4)


def test_a_certain_critic_leaves_the_generator_its_gradient_and_all_losses_finite():
    fake = torch.full((4,), -200.0, requires_grad=True)
    deceive(fake).backward()
    torch.testing.assert_close(fake.grad, torch.full((4,), -0.25))
    assert math.isfinite(criticise(torch.full((4,), -200.0), torch.full((4,), 200.0)).item())


def test_means_are_matched_feature_by_feature_and_real_ones_get_no_gradient():
    fake, real = draw(4, 3).requires_grad_(), draw(6, 3, seed=1).requires_grad_()
    ours, theirs = fake.T.tolist(), real.T.tolist()
    expected = sum((sum(a) / 4 - sum(b) / 6) ** 2 for a, b in zip(ours, theirs, strict=True)) / 3
    loss = match(fake, real)
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert fake.grad is not None
    assert real.grad is None


def test_a_frozen_critic_passes_gradients_on_and_learns_nothing():
    critic, made = nn.Linear(3, 1), draw(5, 3).requires_grad_()
    critic.bias.requires_grad_(False)
    with frozen(critic):
        deceive(critic(made)).backward()
    assert made.grad.abs().sum() > 0
    assert critic.weight.grad is None
    assert [weight.requires_grad for weight in critic.parameters()] == [True, False]


def test_a_generator_has_layers_of_these_lengths_and_a_linear_end():
    made = stack([3, 5, 7, 2], nn.ELU)
    assert [type(layer).__name__ for layer in made] == ["Linear", "BatchNorm1d", "ELU"] * 2 + ["Linear"]
    assert made(draw(6, 3)).shape == (6, 2)


def test_dropout_keeps_the_mean_and_is_the_same_for_the_same_noise():
    values = torch.ones(200, 50)
    dropped = drop(values, 0.2, Noise(seed=1))
    assert sorted(dropped.unique().tolist()) == [0, 1.25]
    assert dropped.mean().item() == pytest.approx(1, abs=0.03)  # five standard deviations of 10,000 coins
    assert torch.equal(dropped, drop(values, 0.2, Noise(seed=1)))
    assert not torch.equal(dropped, drop(values, 0.2, Noise(seed=2)))


def test_what_the_critic_believes_is_watched_without_gradient():
    real, fake = draw(5).requires_grad_(), draw(5, seed=1)
    watched = watch_critic(real, fake)
    assert not watched["critic_real"].requires_grad
    for name, logits in (("critic_real", real), ("critic_fake", fake)):
        assert watched[name].item() == pytest.approx(sum(chance(one) for one in logits.tolist()) / 5, rel=1e-5)
