"""NSH: sort the codes' distances softly, gather latents in that order, contrast by rank.

Yu, Shen, Wang, Zhang, Torr, "Learning to Hash Naturally Sorts", IJCAI 2022. It knows its heads and its loss, not how
they are run (`nsh.training.loop`). Where the paper's text is open, each reading is a parameter (docs/decisions/0006):

- tau_s: the literal reading, `tau_s: d_b` on an affinity in [0, 1], mixes all items almost evenly and trains badly;
  the default is 0.1 on that scale.
- similarity: cos in Eq. 6 is taken at its word, gathered latents are normalised again; `product` is Alg. 1's einsum.
- quantiser: L_R is the literal, unsquared norm; `squared` and `mean` are the other two in use.
- hidden: the paper's "top two fully-connected layers" are the two heads, one linear layer each, here on standardised
  embeddings of a frozen backbone; a hidden layer below both is what the authors' later code has.
- symmetric: the paper sorts view 1 and takes view 2 as anchors; true adds the same with the views exchanged.

Ours, not the paper's: `init: itq` starts the hash head from ITQ's rotated principal directions, so that the first
sorted lists already mean something; `init: random` is the paper's NSH.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.errors import TrainingError
from nsh.objectives.base import HashHead, Loop, Objective, Report, Schedule, TrainingData
from nsh.objectives.closed_forms.rotation import learn_projection
from nsh.objectives.gradient import draw_layers
from nsh.objectives.heads.binary import mean_quantisation, quantisation, squared_quantisation, straight_through
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.heads.perceptron import PerceptronHead
from nsh.objectives.sorting.softsort import affinity
from nsh.objectives.sorting.sorted_nce import sorted_cosines, sorted_nce, sorted_products

SIMILARITIES = {"cosine": sorted_cosines, "product": sorted_products}
QUANTISERS = {"norm": quantisation, "squared": squared_quantisation, "mean": mean_quantisation}
INIT_ITERATIONS = 50  # of ITQ, for `init: itq`
INIT_SPREAD = 0.5  # standard deviation of the logits it starts with


@dataclass(frozen=True, kw_only=True)
class Nsh:
    """The method with its parameters, as in params.yaml."""

    epochs: int
    batch: int
    learning_rate: float
    m: int
    tau_s: float | Literal["d_b"]
    tau_c: float
    d_z: int
    similarity: Literal["cosine", "product"]
    quantisation: float
    quantiser: Literal["norm", "squared", "mean"]
    hidden: int
    symmetric: bool
    init: Literal["random", "itq"]
    ablation: str

    name = "nsh"

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Train hash head and latent head on cached views; only the hash head is kept.

        `report` gets loss, its two terms (sorted_nce, or what an ablation has instead, and quantisation) and
        bit_balance once an epoch.

        Raises:
            TrainingError: m leaves no negative, or the loop cannot train on this data.
        """
        if not 1 <= self.m < self.batch:
            raise TrainingError(f"m = {self.m} positives in a list of {self.batch}: choose 1 <= m < batch")
        objective = self.objective(data, bits=bits, seed=seed)
        schedule = Schedule(epochs=self.epochs, batch=self.batch, learning_rate=self.learning_rate)
        identity: Mapping[str, Any] = {"method": self.name, "bits": bits, **asdict(self)}
        loop(objective, data, schedule=schedule, seed=seed, identity=identity, report=report)
        return objective.head

    def head(self, dim: int, bits: int) -> StandardisedHead:
        """An empty hash head."""
        return PerceptronHead(dim, bits, hidden=self.hidden) if self.hidden else StandardisedHead(dim, bits)

    def objective(self, data: TrainingData, *, bits: int, seed: int) -> "NshObjective":
        """Fresh heads, standardised on the clean features and drawn from `seed`."""
        head = self.head(data.dim, bits)
        head.fit_standardisation(torch.from_numpy(data.features))
        objective = self.build(head)
        draw_layers(objective, seed=seed)
        if self.init == "itq":
            start_from_itq(head, data, seed=seed)
        return objective

    def build(self, head: StandardisedHead) -> "NshObjective":
        """The objective around `head`: NSH's own, or an ablation of it."""
        if self.ablation == "none":
            return NshObjective(head, self)
        from nsh.methods.ablations import ABLATIONS  # which are made of what is here

        return ABLATIONS[self.ablation](head, self)


@torch.no_grad()
def start_from_itq(head: StandardisedHead, data: TrainingData, *, seed: int) -> None:
    """Make the logits ITQ's projections of the centred embeddings, small enough for tanh to stay soft.

    The projection is learned on embeddings of unit length, as ITQ does, and applied to the embeddings as they are.

    Raises:
        TrainingError: a hidden layer, more bits than features, or all embeddings are equal.
    """
    if isinstance(head, PerceptronHead):
        raise TrainingError("init: itq starts a linear head, found a hidden layer: choose hidden: 0 or init: random")
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


@dataclass(frozen=True)
class View:
    """What the heads make of one view of n images."""

    embedding: Tensor  # X, float [n, dim], as the backbone made it
    hidden: Tensor  # H, float [n, bits] in [-1, 1]
    code: Tensor  # B, the signs of H, ±1, with H's gradient
    latent: Tensor  # Z, float [n, d_z], rows of unit length


class NshObjective(Objective):
    """L_NSH = L_Sorted + weight * L_R of two views (paper, section 4.4).

    The ablations (`nsh.methods.ablations`) are subclasses that replace its parts.
    """

    head: StandardisedHead
    term = "sorted_nce"  # what `contrast` is called in the record

    def __init__(self, head: StandardisedHead, parameters: Nsh) -> None:
        super().__init__()
        self.head = head
        self.latent = nn.Linear(head.linear.in_features, parameters.d_z)
        self.m = parameters.m
        self.tau_s = float(head.bits) if parameters.tau_s == "d_b" else parameters.tau_s
        self.tau_c = parameters.tau_c
        self.similarity = SIMILARITIES[parameters.similarity]
        self.weight = parameters.quantisation
        self.quantiser = QUANTISERS[parameters.quantiser]
        self.symmetric = parameters.symmetric

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Loss, sorted_nce and quantisation of two views, embeddings float32 [n, dim] each."""
        one, other = self.look(first, second)
        contrast = self.contrast(one, other)
        if self.symmetric:
            contrast = (contrast + self.contrast(other, one)) / 2
        distance = self.quantiser(one.hidden, other.hidden)
        return {"loss": contrast + self.weight * distance, self.term: contrast, "quantisation": distance}

    def look(self, *embeddings: Tensor) -> list[View]:
        """Both heads on every view, in one pass."""
        inputs = self.head.hide(torch.cat(embeddings))
        hidden = self.head.linear(inputs).tanh()
        code = straight_through(hidden)
        parts = [part.chunk(len(embeddings)) for part in (hidden, code, self.represent(inputs, code))]
        return [View(*view) for view in zip(embeddings, *parts, strict=True)]

    def represent(self, inputs: Tensor, code: Tensor) -> Tensor:
        """Z: what is gathered and held against the anchor, rows of unit length."""
        return functional.normalize(self.latent(inputs), dim=1)

    def contrast(self, one: View, other: View) -> Tensor:
        """L_Sorted, a scalar (Eq. 6)."""
        return sorted_nce(self.compare(one, other), m=self.m, tau_c=self.tau_c)

    def compare(self, one: View, other: View) -> Tensor:
        """Similarity of the latents of `one`, in their soft order for each query, to the anchor in `other`.

        Returns:
            float [n, n(rank)] (Eqs. 3 to 5).
        """
        return self.similarity(affinity(one.code, other.code), one.latent, other.latent, tau_s=self.tau_s)
