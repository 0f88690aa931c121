"""The game of a generator and a critic, both on embeddings instead of pixels. Knows no hash code.

Goodfellow et al., "Generative Adversarial Nets", NIPS 2014: a critic gives the logit that a sample is real, and a
generator makes samples. One Adam trains both together with the encoder; each loss says whose weights it does not reach,
by `frozen` or by detaching its input.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.noise import Noise


def stack(widths: Sequence[int], activation: type[nn.Module]) -> nn.Sequential:
    """Linear layers, each followed by batch normalisation and an activation, but for the last one: a generator.

    Args:
        widths: length of the input, of every hidden layer, and of the output.
        activation: of the hidden layers.
    """
    layers: list[nn.Module] = []
    for before, after in pairwise(widths[:-1]):
        layers += [nn.Linear(before, after), nn.BatchNorm1d(after), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """What `modules` compute in the block passes gradients on to its inputs, and gives their weights none."""
    weights = [weight for module in modules for weight in module.parameters() if weight.requires_grad]
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


def criticise(real: Tensor, fake: Tensor) -> Tensor:
    """-mean log D(real) - mean log(1 - D(fake)), which the critic minimises; 2 log 2 where all logits are 0.

    Args:
        real: logits of real samples, float of any shape.
        fake: logits of generated samples.
    """
    return functional.softplus(-real).mean() + functional.softplus(fake).mean()


def deceive(fake: Tensor) -> Tensor:
    """-mean log D(fake), which the generator minimises: its gradient does not vanish where the critic is certain."""
    return functional.softplus(-fake).mean()


def match(fake: Tensor, real: Tensor) -> Tensor:
    """Mean over features of (mean_i fake_i - mean_i real_i)^2; no gradient reaches `real`.

    Feature matching: Salimans et al., "Improved Techniques for Training GANs", NIPS 2016, section 3.1.

    Args:
        fake: features that the critic sees in generated samples, float [n, width].
        real: features that it sees in real ones, float [m, width].
    """
    return (fake.mean(dim=0) - real.detach().mean(dim=0)).square().mean()


def drop(values: Tensor, share: float, noise: Noise) -> Tensor:
    """Dropout from a generator of its own, so that an interrupted training goes on alike.

    Args:
        values: float [n, width].
        share: of the entries that become 0, in [0, 1); the others grow by 1 / (1 - share).
        noise: draws them.
    """
    kept = noise.uniform(*values.shape, device=values.device) >= share
    return values * kept / (1 - share)


@torch.no_grad()
def watch_critic(real: Tensor, fake: Tensor) -> dict[str, Tensor]:
    """Mean D(real) and mean D(fake), for the record; arguments as of `criticise`."""
    return {"critic_real": real.sigmoid().mean(), "critic_fake": fake.sigmoid().mean()}
