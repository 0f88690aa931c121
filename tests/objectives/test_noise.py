"""Noise: of the seed and the number of the draw, and of nothing else."""

import torch

from nsh.objectives.noise import Noise


def test_noise_is_uniform_new_each_time_and_the_same_for_the_same_seed():
    draws, again, other = Noise(seed=1), Noise(seed=1), Noise(seed=2)
    first, second = draws.uniform(100, 50), draws.uniform(100, 50)
    torch.rand(3)
    assert torch.equal(first, again.uniform(100, 50))
    assert torch.equal(second, again.uniform(100, 50))
    assert not torch.equal(first, second)
    assert not torch.equal(first, other.uniform(100, 50))
    assert float(first.min()) >= 0
    assert float(first.max()) < 1
    assert abs(float(first.mean()) - 0.5) < 0.02


def test_a_restored_state_goes_on_where_it_stopped():
    draws, restored = Noise(seed=3), Noise(seed=3)
    draws.uniform(2, 2)
    restored.load_state_dict(draws.state_dict())
    assert torch.equal(draws.uniform(4, 4), restored.uniform(4, 4))
