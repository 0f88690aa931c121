"""DeepBit, the head only: bits with little rounding error, balanced, and invariant to rotation.

Lin, Lu, Chen, Zhou, "Learning Compact Binary Descriptors with Unsupervised Deep Neural Networks", CVPR 2016. Published:
VGG-16 with a last layer F of one output a bit, b = (sign F + 1) / 2; the loss is ||(b - 1/2) - F||^2, plus ||mean_n b -
1/2||^2, plus the squared difference between the codes of an image and of its rotations by up to 10 degrees. SGD, first
50,000 steps of 1e-3 without and then 5,000 of 1e-4 with the last term, weighted 0.001. In the networks that the authors
released for CIFAR-10 only the last layer is trained, too, with a ReLU after it, and the last term compares its outputs,
not bits (read from kevinlin311tw/cvpr16-deepbit; no code is copied).

Differences: the backbone is frozen; the augmented views of all methods replace rotations, both views of an image in
each step; one stage with all terms; norms are summed over bits and averaged over images; the gradient of the sign in
the second and third term is that of the identity.

No term compares different images, so on a frozen backbone DeepBit is a random projection with balanced bits, and below
LSH from 32 bits on. The published figures are no better evidence: the gradients of the released loss layers cancel each
other, so the released networks are near a random projection too. It is here for the table.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import GradientMethod
from nsh.objectives.heads.binary import sign, straight_through
from nsh.objectives.heads.linear import StandardisedHead
from nsh.ranges import Count, Positive, Several, Weight


@dataclass(frozen=True, kw_only=True)
class DeepBit(GradientMethod):
    """Lin et al., "Learning Compact Binary Descriptors", CVPR 2016, its head only.

    Unlike the paper: augmented views for rotations; one stage of Adam 1e-4 for two of SGD; 15 epochs, 2,340 steps of
    10,000 images, for 55,000 steps.
    """

    epochs: Count = 15
    batch: Several = 64
    learning_rate: Positive = 1e-4
    balance: Weight = 1.0  # weight of the bits' balance
    invariance: Weight = 0.001  # weight of the difference between the views' bits

    name = "deepbit"

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        return DeepBitObjective(head, self)


class DeepBitObjective(Objective):
    """Quantisation + balance + invariance."""

    def __init__(self, head: StandardisedHead, parameters: DeepBit) -> None:
        super().__init__()
        self.head = head
        self.balance = parameters.balance
        self.invariance = parameters.invariance

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Loss, quantisation, imbalance and variance of two views, embeddings float32 [n, dim] each."""
        outputs = self.head(torch.cat([first, second]))
        bits = straight_through(outputs) / 2  # b - 1/2
        rounding = (sign(outputs) / 2 - outputs).square().sum(dim=1).mean()
        imbalance = bits.mean(dim=0).square().sum()
        one, other = bits.chunk(2)
        variance = (one - other).square().sum(dim=1).mean()
        loss = rounding + self.balance * imbalance + self.invariance * variance
        return {"loss": loss, "quantisation": rounding, "imbalance": imbalance, "variance": variance}
