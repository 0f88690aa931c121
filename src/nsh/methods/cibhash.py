"""CIBHash: contrast the codes of two views, and limit a code to the information that both views share.

Qiu, Su, Ou, Yu, Chen, "Unsupervised Hashing with Contrastive Information Bottleneck", IJCAI 2021. Published: on
frozen VGG-16 features a hidden layer of 1024 and a layer of one logit a bit; p = sigmoid(logit); b = sign(p - 1/2)
with the gradient of the identity; the loss is NT-Xent of the codes of two augmented views (temperature 0.3) plus,
weighted 0.001, the Kullback-Leibler divergence between the bits' Bernoulli distributions of the two views, both ways,
the second argument without gradient. Adam, 1e-3, batches of 64, 60 epochs on 5,000 images. Details that the text
leaves open (the shape of the head, where gradients stop, the sum over bits) are those of the authors' code
(zexuanqiu/CIBHash, MIT).

Differences: embeddings are standardised; epochs refer to our number of images; no epoch is selected.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.contrast import ntxent
from nsh.objectives.gradient import GradientMethod
from nsh.objectives.heads.binary import straight_through
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.heads.perceptron import PerceptronHead
from nsh.ranges import Count, Positive, Several, Weight


@dataclass(frozen=True, kw_only=True)
class CibHash(GradientMethod):
    """Qiu et al., "Contrastive Information Bottleneck", IJCAI 2021."""

    epochs: Count = 30
    batch: Several = 64
    learning_rate: Positive = 1e-3
    hidden: Count = 1024  # length of the hidden layer
    temperature: Positive = 0.3  # of NT-Xent
    bottleneck: Weight = 0.001  # weight of the divergence between the views' bits

    name = "cibhash"

    def head(self, dim: int, bits: int) -> PerceptronHead:
        """An empty hash head."""
        return PerceptronHead(dim, bits, hidden=self.hidden)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        return CibHashObjective(head, self)


class CibHashObjective(Objective):
    """NT-Xent of the codes + bottleneck * divergence of the bits' distributions."""

    def __init__(self, head: StandardisedHead, parameters: CibHash) -> None:
        super().__init__()
        self.head = head
        self.temperature = parameters.temperature
        self.weight = parameters.bottleneck

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Loss, contrast and divergence of two views, embeddings float32 [n, dim] each."""
        logits = self.head(torch.cat([first, second]))
        codes = straight_through(logits.sigmoid() - 0.5)
        contrast = ntxent(*codes.chunk(2), temperature=self.temperature)
        shared = divergence(*logits.chunk(2))
        return {"loss": contrast + self.weight * shared, "contrast": contrast, "divergence": shared}


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """(KL(p || sg q) + KL(q || sg p)) / 2 of the bits' Bernoulli distributions, summed over bits, mean over images.

    Args:
        first: logits of p, float [n, bits].
        second: logits of q.
    """
    return (_divergence(first, second.detach()) + _divergence(second, first.detach())) / 2


def _divergence(first: Tensor, second: Tensor) -> Tensor:
    one = first.sigmoid() * (functional.logsigmoid(first) - functional.logsigmoid(second))
    zero = (-first).sigmoid() * (functional.logsigmoid(-first) - functional.logsigmoid(-second))
    return (one + zero).sum(dim=1).mean()
