"""HashGAN on features: a code that a GAN's critic shares its layers with, and that tells the codes of made images.

Ghasedi Dizaji, Zheng, Sadoughi Nourabadi, Yang, Deng, Huang, "Unsupervised Deep Generative Adversarial Hashing
Network", CVPR 2018; not the supervised HashGAN of the same year. Published: convolutional layers phi, on which stand a
critic's logit and the code t = sigmoid(W phi + c), a bit being 1 if t > 1/2; a generator makes images from noise z and
a code b'; nothing is pretrained. With H the entropy of a bit in nats, over n real images x, an augmented one x' of
each, and n made images, critic and code minimise the sum of

    ADV = -mean log D(x) - mean log(1 - D(made))       ME = mean H(t(x)): every bit is certain
    UF = -mean_bits H(mean_i t(x_i)): balanced         CONS = mean (t(x) - t(x'))^2: the same under augmentation
    IND = mean (W W^T - I)^2: independent              COL = the sum over bits of (t(made) - b')^2, mean over images

and the generator matches the mean of phi. There is no code of the authors: the formulas, the weights 0.01 of ME and 0.1
of COL, and the course of the training (Adam, 9e-4 falling to 3e-4, beta1 = 0.5, batches of 100, 100 epochs, the first
tenth with ADV alone) are read from the reimplementation 8uos/HashGAN-Pytorch; no code is copied.

On features: phi is two hidden layers with dropout on standardised embeddings of a frozen backbone, which the generator
makes instead of pixels. So it is pretrained, which the published one is not, and what a generator of images teaches its
critic about images is lost. All losses are the published ones.

Differences: W W^T, which can become I, where the reimplementation has W^T W; x and x' are two of the views of all
methods; ME weighs 0.1, between the paper, which weights nothing, and the reimplementation; generator and critic are
updated in the same step, with Adam's usual betas and one rate; layers are scaled by data at the start. The
reimplementation has 40 times as many steps.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.adversarial.elapsed import Elapsed
from nsh.objectives.adversarial.failures import watch_codes
from nsh.objectives.adversarial.game import criticise, frozen, match, stack, watch_critic
from nsh.objectives.adversarial.heads import CriticHead, SharedCriticMethod
from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.noise import Noise
from nsh.ranges import Count, Positive, Several, Share, Weight

NOISE = 128  # length of z
LEAST = 1e-7  # distance of a mean from 0 and 1, where its entropy has no finite gradient


@dataclass(frozen=True, kw_only=True)
class Hashgan(SharedCriticMethod):
    """Ghasedi Dizaji et al., "Generative Adversarial Hashing Network", CVPR 2018, on features.

    Unlike the paper: embeddings for pixels; 8 epochs, 1,248 steps of 10,000 images, for 50,000; ME weighs 0.1 for 1.
    """

    epochs: Count = 8
    batch: Several = 64
    learning_rate: Positive = 9e-4
    hidden: Several = 384  # length of the first hidden layer; the second, phi, has half of it
    certainty: Weight = 0.1  # weight of ME
    recovery: Weight = 0.1  # weight of COL
    alone: Share = 0.1  # share of the training in which the critic learns nothing but ADV

    name = "hashgan"

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        return HashganObjective(head, data, self, seed=seed)


class HashganObjective(Objective):
    """The critic, its code, and the generator."""

    head: CriticHead

    def __init__(self, head: StandardisedHead, data: TrainingData, parameters: Hashgan, *, seed: int) -> None:
        super().__init__()
        self.head = cast(CriticHead, head)
        self.judge = nn.Linear(self.head.shared, 1)
        widths = [NOISE + head.bits, parameters.hidden // 2, parameters.hidden, head.dim]
        self.generator = stack(widths, nn.ReLU)
        self.noise = Noise(seed=seed)
        self.elapsed = Elapsed(parameters, data)
        self.weights = parameters

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """The losses of two views, embeddings float32 [n, dim] each; the first one is x, the second one x'."""
        real, moved = (self.hide(self.head.standardise(view)) for view in (first, second))
        asked = (self.noise.uniform(len(first), self.head.bits, device=first.device) > 0.5).to(first.dtype)
        drawn = self.noise.uniform(len(first), NOISE, device=first.device)
        made = self.generator(torch.cat([drawn, asked], dim=1))
        fake = self.hide(made.detach())
        with frozen(self.head):
            generator = match(self.hide(made), real)
        judged = self.judge(real), self.judge(fake)
        critic, logits = criticise(*judged), self.head.finish(real)
        terms = self.describe(logits, self.head.finish(moved))
        terms["recovery"] = (self.head.finish(fake).sigmoid() - asked).square().sum(dim=1).mean()
        code = self.weights.certainty * terms["certainty"] + self.weights.recovery * terms["recovery"]
        code = code + terms["balance"] + terms["consistency"] + terms["independence"]
        loss = critic + generator + (self.elapsed.next() >= self.weights.alone) * code
        watched = {**watch_critic(*judged), **watch_codes(self.head, first)}
        return {"loss": loss, "critic": critic, "generator": generator, **terms, **watched}

    def hide(self, inputs: Tensor) -> Tensor:
        """Phi of standardised embeddings, float32 [n, hidden / 2], with dropout."""
        return self.head.hide_dropped(inputs, self.noise)

    def describe(self, logits: Tensor, moved: Tensor) -> dict[str, Tensor]:
        """ME, UF, CONS and IND of the logits of x and x', float32 [n, bits] each."""
        chances = logits.sigmoid()
        return {
            "certainty": uncertainty(logits),
            "balance": -entropy(chances.mean(dim=0)).mean(),
            "consistency": (chances - moved.sigmoid()).square().mean(),
            "independence": dependence(self.head.linear.weight),
        }


def uncertainty(logits: Tensor) -> Tensor:
    """ME: mean entropy in nats of bits with these logits, float of any shape."""
    return (functional.softplus(logits) - logits * logits.sigmoid()).mean()


def entropy(chances: Tensor) -> Tensor:
    """Entropy in nats of bits that are 1 with these chances, in [0, 1], float of any shape."""
    inner = chances.clamp(LEAST, 1 - LEAST)
    nats: Tensor = torch.special.entr(inner) + torch.special.entr(1 - inner)
    return nats


def dependence(weight: Tensor) -> Tensor:
    """IND: mean entry of (W W^T - I)^2 of W, float [bits, width]."""
    identity = torch.eye(len(weight), dtype=weight.dtype, device=weight.device)
    missed: Tensor = (weight @ weight.T - identity).square().mean()
    return missed
