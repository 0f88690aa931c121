"""BinGAN on features: a code inside a GAN's critic, regularised to keep the relations of the layer before it.

Zieba, Semberecki, El-Gaaly, Trzcinski, "BinGAN: Learning Compact Binary Descriptors with a Regularized GAN", NeurIPS
2018. Published: a convolutional critic whose last layers are a wide layer w, a linear layer f of one output a bit, and
two logits l of which D = Z / (Z + 1), Z = the sum of e^l; a bit is 1 if f > 0. The critic is trained as in Salimans et
al., "Improved Techniques for Training GANs", NIPS 2016, the generator, from uniform noise, to match the mean of f. On
real images, with u = sign w and s = f / (|f| + 0.001), the critic also minimises, over pairs i != j,

    DMR = mean |u_i u_j / K - s_i s_j / bits|            K = length of w: distances of short codes as those of long ones
    BRE = mean_bits (mean_i s_i)^2                        bits are balanced
        + mean a_ij |s_i s_j| / bits                      and images that u does not relate have independent codes,
                                                          a_ij = exp(-|u_i u_j| / 2 K)

weighted 0.05 and 0.001 on CIFAR-10. Adam, 3e-4 with beta1 = 0.5, batches of 25, 400 epochs. Details are read from
maciejzieba/binGAN; no code is copied.

On features: critic and generator judge and make standardised embeddings of a frozen backbone instead of pixels, with
two hidden layers each; the second one of the critic is the wide layer. All losses are the published ones.

Differences: both are updated in the same step, with Adam's usual betas; the batch whose mean f the generator matches is
that of the images' other views; the critic has dropout as published (0.2 of the input, 0.5 between layers), but no
weight normalisation, only its initialisation by data. Published are 640 times as many
steps (docs/experiments.md).
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from nsh.objectives.adversarial.failures import watch_codes
from nsh.objectives.adversarial.game import criticise, frozen, match, stack, watch_critic
from nsh.objectives.adversarial.heads import CriticHead, SharedCriticMethod
from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.heads.binary import sign
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.noise import Noise
from nsh.ranges import Count, Positive, Several, Weight

NOISE = 100  # length of the generator's input
LOGITS = 2  # of the critic
SOFT = 0.001  # of the soft sign f / (|f| + SOFT)
BETA = 2.0  # how fast the weight of a pair falls with the relation of its wide layers


@dataclass(frozen=True, kw_only=True)
class Bingan(SharedCriticMethod):
    """Zieba et al., "BinGAN: Learning Compact Binary Descriptors", NeurIPS 2018, on features.

    Unlike the paper: embeddings for pixels; 8 epochs, 1,248 steps of 10,000 images, for 800,000.
    """

    epochs: Count = 8
    batch: Several = 64
    learning_rate: Positive = 3e-4
    hidden: Several = 384  # length of the first hidden layer; the second, w, has half of it: 192, as published
    distances: Weight = 0.05  # weight of DMR
    entropy: Weight = 0.001  # weight of BRE; the authors have 0.01 for patches

    name = "bingan"

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        return BinganObjective(head, self, seed=seed)


class BinganObjective(Objective):
    """The critic with its regularisers, and the generator."""

    head: CriticHead

    def __init__(self, head: StandardisedHead, parameters: Bingan, *, seed: int) -> None:
        super().__init__()
        self.head = cast(CriticHead, head)
        self.judge = nn.Linear(head.bits, LOGITS)
        self.generator = stack([NOISE, parameters.hidden, parameters.hidden, head.dim], nn.ReLU)
        self.noise = Noise(seed=seed)
        self.weights = parameters

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """The losses of two views, embeddings float32 [n, dim] each; the generator matches the second one."""
        wide, outputs = self.apply_critic(self.head.standardise(first))
        made = self.generator(self.noise.uniform(len(first), NOISE, device=first.device))
        real, fake = self.weigh(outputs), self.weigh(self.apply_critic(made.detach())[1])
        with torch.no_grad():
            wanted = self.apply_critic(self.head.standardise(second))[1]
        with frozen(self.head, self.judge):
            generator = match(self.apply_critic(made)[1], wanted)
        critic, regularisers = criticise(real, fake) / 2, regularise(outputs, wide)
        entropy = regularisers["balance"] + regularisers["independence"]
        weighted = self.weights.distances * regularisers["distances"] + self.weights.entropy * entropy
        losses = {"loss": critic + generator + weighted, "critic": critic, "generator": generator, **regularisers}
        return {**losses, **watch_critic(real, fake), **watch_codes(self.head, first)}

    def apply_critic(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The wide layer and f of standardised embeddings, float32 [n, hidden / 2] and [n, bits], with dropout."""
        wide = self.head.hide_dropped(inputs, self.noise)
        return wide, self.head.finish(wide)

    def weigh(self, outputs: Tensor) -> Tensor:
        """Log Z of f, float32 [n, bits]: the logit of D, float32 [n]."""
        return self.judge(outputs).logsumexp(dim=1)  # type: ignore[no-any-return]


def regularise(outputs: Tensor, wide: Tensor) -> dict[str, Tensor]:
    """DMR ("distances") and both parts of BRE ("balance", "independence") of real images.

    Args:
        outputs: f, float [n, bits], n >= 2.
        wide: w, float [n, K]; its signs are constants.
    """
    soft, signs = outputs / (outputs.abs() + SOFT), sign(wide)
    ours, theirs = soft @ soft.T / soft.shape[1], signs @ signs.T / signs.shape[1]
    unrelated = (theirs.abs() / -BETA).exp()
    return {
        "distances": mean_of_pairs((ours - theirs).abs()),
        "balance": soft.mean(dim=0).square().mean(),
        "independence": mean_of_pairs(unrelated * ours.abs()),
    }


def mean_of_pairs(values: Tensor) -> Tensor:
    """Mean over the pairs i != j of float [n, n], n >= 2."""
    count = len(values)
    return (values.sum() - values.diagonal().sum()) / (count * (count - 1))
