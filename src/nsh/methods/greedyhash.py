"""GreedyHash, unsupervised: the codes' cosines should equal the features' cosines, through the hard sign.

Su, Zhang, Han, Tian, "Greedy Hash: Towards Fast Optimization for Accurate Hash Coding in CNN", NeurIPS 2018, sections
3.2 to 3.4. Published: one linear layer h on frozen VGG-16 features x, b = sign(h) with the gradient of the identity;
the loss is the mean of (cos(b_i, b_j) - cos(x_i, x_j))^2 over pairs of images, plus 0.1 times the mean of ||h| -
1|^3, which keeps the gradient of the identity accurate. SGD, 1e-4, batches of 32, 60 epochs, 300 at 16 bits (read from
ssppp/GreedyHash; no code is copied).

Differences: embeddings are centred and divided by one number before the linear layer (standardising each feature
retrieves worse); all pairs of a batch are compared; Adam instead of SGD; no dropout. As published, the cosines are
those of the features without centring. A rectified network's features have only positive cosines, so bits are
unbalanced. Centred features balance the bits and retrieve no better (docs/experiments.md).
"""

from dataclasses import dataclass

from torch import Tensor

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import CleanObjective, GradientMethod
from nsh.objectives.graphs.cosine_structure import cosine_structure
from nsh.objectives.heads.binary import sign, straight_through
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.heads.scaled import ScaledHead
from nsh.ranges import Count, Positive, Several, Weight


@dataclass(frozen=True, kw_only=True)
class GreedyHash(GradientMethod):
    """Su et al., "Greedy Hash", NeurIPS 2018, unsupervised.

    Unlike the paper: Adam 1e-3 for SGD 1e-4; batches of 64 for 32; 30 epochs for 60 (300 at 16 bits).
    """

    epochs: Count = 30
    batch: Several = 64
    learning_rate: Positive = 1e-3
    penalty: Weight = 0.1  # weight of ||h| - 1|^3

    name = "greedyhash"

    def head(self, dim: int, bits: int) -> ScaledHead:
        """An empty hash head."""
        return ScaledHead(dim, bits)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        return GreedyHashObjective(head, data, self)


class GreedyHashObjective(CleanObjective):
    """Cosine structure of the codes + penalty * mean ||h| - 1|^3."""

    def __init__(self, head: StandardisedHead, data: TrainingData, parameters: GreedyHash) -> None:
        super().__init__(head, data)
        self.weight = parameters.penalty

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Loss, structure and penalty of the embeddings `inputs` with the cosines of `targets`, float32 [n, dim]."""
        hidden = self.head(inputs)
        structure = cosine_structure(straight_through(hidden), targets)
        penalty = (hidden - sign(hidden)).abs().pow(3).mean()
        return {"loss": structure + self.weight * penalty, "structure": structure, "penalty": penalty}
