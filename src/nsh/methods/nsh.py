"""NSH: sort the codes' distances softly, gather latents in that order, contrast by rank.

Yu, Shen, Wang, Zhang, Torr, "Learning to Hash Naturally Sorts", IJCAI 2022. The loss is in
`nsh.objectives.sorting.objective`, the ablations of the paper's table 3 in `nsh.objectives.sorting.ablations`. Readings
of the paper's open points are parameters (docs/decisions/0006):

- tau_s: the literal reading, `tau_s: d_b` on an affinity in [0, 1], mixes all items almost evenly and trains badly;
  the default is 0.1 on that scale.
- similarity: cos in Eq. 6 is read literally, gathered latents are normalised again; `product` is Alg. 1's einsum.
- quantiser: L_R is the literal, unsquared norm; `squared` and `mean` are other common forms.
- hidden: the paper's "top two fully-connected layers" are the two heads, one linear layer each, here on standardised
  embeddings of a frozen backbone; the authors' later code has a hidden layer below both.
- symmetric: the paper sorts view 1 and takes view 2 as anchors; true adds the same with the views exchanged.

Not in the paper: `init: itq` starts the hash head from ITQ's rotated principal directions, so that the first sorted
lists are meaningful; `init: random` is the paper's NSH.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional

from nsh.errors import TrainingError
from nsh.objectives.base import TrainingData
from nsh.objectives.closed_forms.rotation import learn_projection
from nsh.objectives.gradient import GradientMethod
from nsh.objectives.heads.binary import mean_quantisation, quantisation, squared_quantisation
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.heads.perceptron import PerceptronHead
from nsh.objectives.sorting.ablations import ABLATIONS
from nsh.objectives.sorting.objective import Loss, NshObjective
from nsh.objectives.sorting.sorted_nce import sorted_cosines, sorted_products
from nsh.ranges import Count, CountOrNone, Positive, Several, Truth, Weight

OBJECTIVES = {"none": NshObjective} | ABLATIONS
SIMILARITIES = {"cosine": sorted_cosines, "product": sorted_products}
QUANTISERS = {"norm": quantisation, "squared": squared_quantisation, "mean": mean_quantisation}
INIT_ITERATIONS = 50  # of ITQ, for `init: itq`
INIT_SPREAD = 0.5  # standard deviation of the initial logits


@dataclass(frozen=True, kw_only=True)
class Nsh(GradientMethod):
    """Yu et al., "Learning to Hash Naturally Sorts", IJCAI 2022.

    Unlike the paper: a start from ITQ; m = 3 for 2; tau_s 0.1 for the literal d_b; the heads alone for all layers; Adam
    3e-4 for 1e-5; 15 epochs for 200.
    """

    epochs: Count = 15
    batch: Several = 50  # n, the length of the sorted list
    learning_rate: Positive = 3e-4
    m: Count = 3  # positives at the head of the sorted list, 1 <= m < batch; the paper has 2 on CIFAR-10
    tau_s: Positive | Literal["d_b"] = 0.1  # softsort temperature on the affinity in [0, 1] | d_b: the literal reading
    tau_c: Positive = 0.1  # contrastive temperature
    d_z: Count = 1024  # length of the latent vector
    # of gathered latent and anchor: cosine (Eq. 6) | product: gathered, not made unit (Alg. 1)
    similarity: Literal["cosine", "product"] = "cosine"
    quantisation: Weight = 1.0  # weight of L_R
    # L_R: norm, as printed | squared: its square | mean: the mean squared entry
    quantiser: Literal["norm", "squared", "mean"] = "norm"
    # length of a hidden layer below both heads, with init: random | 0: none, as the paper reads
    hidden: CountOrNone = 0
    symmetric: Truth = False  # true: L_Sorted also with the views exchanged; the paper has one direction
    init: Literal["random", "itq"] = "itq"  # of the hash head: itq (ours) | random (the paper's)
    # what the paper's table 3 takes out:
    ablation: Literal[
        "none",
        "hard_sort",
        "no_quantisation",
        "decoding",
        "single_bottleneck",
        "no_softsort_codes",
        "no_softsort_latents",
        "multi_label_nce",
    ] = "none"

    name = "nsh"

    def __post_init__(self) -> None:
        if not 1 <= self.m < self.batch:
            raise ValueError(f"m = {self.m} positives in a list of {self.batch}: choose 1 <= m < batch")
        if self.init == "itq" and self.hidden:
            raise ValueError("init: itq cannot start a hidden layer: choose hidden: 0 or init: random")

    def head(self, dim: int, bits: int) -> StandardisedHead:
        """An empty hash head."""
        return PerceptronHead(dim, bits, hidden=self.hidden) if self.hidden else StandardisedHead(dim, bits)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> NshObjective:
        """The objective around `head`: NSH's own, or an ablation of it.

        An epoch's record has loss, its two terms (sorted_nce, or an ablation's term, and quantisation) and bit_balance.
        """
        loss = Loss(
            m=self.m,
            tau_s=float(head.bits) if self.tau_s == "d_b" else self.tau_s,
            tau_c=self.tau_c,
            d_z=self.d_z,
            similarity=SIMILARITIES[self.similarity],
            weight=self.quantisation,
            quantiser=QUANTISERS[self.quantiser],
            symmetric=self.symmetric,
        )
        return OBJECTIVES[self.ablation](head, loss)

    def start(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> None:
        """Leave the hash head as it was drawn, or start it from ITQ."""
        if self.init == "itq":
            start_from_itq(head, data, seed=seed)


@torch.no_grad()
def start_from_itq(head: StandardisedHead, data: TrainingData, *, seed: int) -> None:
    """Make the logits ITQ's projections of the centred embeddings, small enough that tanh does not saturate.

    The projection is learned on embeddings of unit length, as in ITQ, and applied to the embeddings without
    normalisation.

    Raises:
        TrainingError: more bits than features, or all embeddings are equal.
    """
    if head.bits > head.dim:
        raise TrainingError(
            f"init: itq finds at most as many bits as there are features, found {head.bits} bits and {head.dim} "
            "features: choose fewer bits or init: random"
        )
    features = torch.from_numpy(data.features).double()
    unit = functional.normalize(features, dim=1)
    centred = unit - unit.mean(dim=0)
    projection = learn_projection(
        centred, bits=head.bits, iterations=INIT_ITERATIONS, seed=seed, report=lambda record: None
    )
    spread = ((features - features.mean(dim=0)) @ projection).std()
    if not spread > 0:
        raise TrainingError("all training images have the same embedding: look at the images or the backbone's weights")
    head.linear.weight.copy_((projection * head.scale[:, None]).T * (INIT_SPREAD / spread))
    head.linear.bias.zero_()
