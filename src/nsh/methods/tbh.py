"""TBH: an auto-encoder whose latents are mixed by a graph convolution on the codes' similarities.

Shen, Qin, Chen, Yu, Liu, Zhu, Shen, Shao, "Auto-Encoding Twin-Bottleneck Hashing", CVPR 2020. Published, on frozen
VGG-16 features x: a hidden layer of 1024 (ReLU); from it the bits b = [sigmoid > 1/2] with the sigmoid's gradient,
and 512 latents z (sigmoid); the graph A_ij = (1 - Hamming / bits)^1.4 of the batch; one graph convolution z' =
sigmoid(D^-1/2 A D^-1/2 W z); a decoder of one hidden layer of 1024 (ReLU) and, in one version of the code, a ReLU
after the last layer as well. The loss is half the squared error, summed, minus the loss of two critics, logistic
regressions that distinguish b from fair coins and z' from uniform noise. Adam, 1e-4, batches of 400, 100,000
steps (details read from ymcidence/TBH; no code is copied).

Differences: x is standardised, so the decoder's last layer is linear. One Adam trains encoder and critics together; the
critics' gradient is reversed where it enters the encoder, which for Adam equals two optimisers in lockstep, and the
reported loss is their sum. Training has about a hundredth of the steps, ten times as large, in smaller batches: with as
many as published it retrieves far better, and takes over an hour (benchmarks/tbh_steps.py, docs/experiments.md).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import CleanObjective, GradientMethod
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.heads.perceptron import PerceptronHead
from nsh.objectives.noise import Noise
from nsh.ranges import Count, Positive, Several

POWER = 1.4  # of the similarity on an edge; the paper's


@dataclass(frozen=True, kw_only=True)
class Tbh(GradientMethod):
    """Shen et al., "Auto-Encoding Twin-Bottleneck Hashing", CVPR 2020.

    Unlike the paper: a hundredth of its 100,000 steps where there are 10,000 images; Adam 1e-3 for 1e-4; batches of 100
    for 400; trained as published, it has an mAP of .531 at 32 bits on CIFAR-10.
    """

    epochs: Count = 12
    batch: Several = 100
    learning_rate: Positive = 1e-3
    hidden: Count = 1024  # length of the hidden layers
    latent: Count = 512  # length of the second bottleneck

    name = "tbh"

    def head(self, dim: int, bits: int) -> PerceptronHead:
        """An empty hash head."""
        return PerceptronHead(dim, bits, hidden=self.hidden)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        return TbhObjective(head, data, self, seed=seed)


class TbhObjective(CleanObjective):
    """Reconstruction against two critics."""

    head: PerceptronHead

    def __init__(self, head: StandardisedHead, data: TrainingData, parameters: Tbh, *, seed: int) -> None:
        super().__init__(head, data)
        self.latent = nn.Linear(parameters.hidden, parameters.latent)
        self.convolution = nn.Linear(parameters.latent, parameters.latent)
        self.decoder = nn.Sequential(
            nn.Linear(parameters.latent, parameters.hidden), nn.ReLU(), nn.Linear(parameters.hidden, head.dim)
        )
        self.code_critic = nn.Linear(head.bits, 1)
        self.latent_critic = nn.Linear(parameters.latent, 1)
        self.noise = Noise(seed=seed)

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Loss, reconstruction and the critics' loss; `inputs` reconstruct `targets`, float32 [n, dim] each."""
        hidden = self.head.hide(self.head.standardise(inputs))
        chance = self.head.linear(hidden).sigmoid()
        bits = (chance.detach() > 0.5).to(chance.dtype) + (chance - chance.detach())
        mixed = self.convolution(self.latent(hidden).sigmoid())
        latents = (normalised_graph(bits) @ mixed).sigmoid()
        reconstruction = (self.decoder(latents) - self.head.standardise(targets)).square().sum() / 2
        coins = (self.noise.uniform(*bits.shape, device=bits.device) > 0.5).to(bits.dtype)
        critics = criticise(self.code_critic, bits, coins)
        critics = critics + criticise(
            self.latent_critic, latents, self.noise.uniform(*latents.shape, device=latents.device)
        )
        return {"loss": reconstruction + critics, "reconstruction": reconstruction, "critics": critics}


def normalised_graph(bits: Tensor) -> Tensor:
    """D^-1/2 A D^-1/2 with A_ij = (1 - Hamming(b_i, b_j) / length)^1.4 and D its row sums.

    Args:
        bits: 0 or 1, float [n, length].

    Returns:
        float [n, n], symmetric.
    """
    differ = bits @ (1 - bits).T
    similarity = (1 - (differ + differ.T) / bits.shape[1]).clamp_min(0) ** POWER
    scale = similarity.sum(dim=1).rsqrt()
    return scale[:, None] * similarity * scale


def criticise(critic: nn.Module, made: Tensor, wanted: Tensor) -> Tensor:
    """Binary cross entropy of a critic with target 0 for `made` and 1 for `wanted`, the mean of both.

    The critic minimises it; the gradient of `made` is reversed, so that its network maximises it.
    """
    fooled, fair = critic(_Reverse.apply(made)), critic(wanted)
    return functional.softplus(fooled).mean() + functional.softplus(-fair).mean()


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return -gradients[0]
