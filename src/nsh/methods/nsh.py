"""NSH: sort the codes' distances softly, gather latents in that order, contrast by rank.

Yu, Shen, Wang, Zhang, Torr, "Learning to Hash Naturally Sorts", IJCAI 2022. It knows its heads and its loss, not how
they are run (`nsh.training.loop`). Where the paper's text is open:

- tau_s: the literal reading, `tau_s: d_b` on an affinity in [0, 1], mixes all items almost evenly and trains badly;
  the default is 0.1 on that scale.
- cos in Eq. 6 is taken at its word: gathered latents are normalised again.
- L_R is the literal, unsquared norm.
- The backbone is frozen here, so both heads are one linear layer on standardised embeddings.

Ours, not the paper's: `init: itq` starts the hash head from ITQ's rotated principal directions, so that the first
sorted lists already mean something; `init: random` is the paper's NSH.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.core.errors import TrainingError
from nsh.methods.base import HashHead, Loop, Objective, Report, Schedule, TrainingData
from nsh.methods.binary import quantisation, straight_through
from nsh.methods.heads import StandardisedHead, draw_uniform
from nsh.methods.rotation import learn_projection
from nsh.methods.softsort import affinity
from nsh.methods.sorted_nce import sorted_cosines, sorted_nce

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
    quantisation: float
    init: Literal["random", "itq"]

    name = "nsh"

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Train hash head and latent head on cached views; only the hash head is kept.

        `report` gets loss, sorted_nce, quantisation and bit_balance once an epoch.

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
        return StandardisedHead(dim, bits)

    def objective(self, data: TrainingData, *, bits: int, seed: int) -> "NshObjective":
        """Fresh heads, standardised on the clean features and drawn from `seed`."""
        head = self.head(data.dim, bits)
        head.fit_standardisation(torch.from_numpy(data.features))
        objective = NshObjective(head, self)
        generator = torch.Generator().manual_seed(seed)
        draw_uniform(head.linear, generator)
        draw_uniform(objective.latent, generator)
        if self.init == "itq":
            start_from_itq(head, data, seed=seed)
        return objective


@torch.no_grad()
def start_from_itq(head: StandardisedHead, data: TrainingData, *, seed: int) -> None:
    """Make the logits ITQ's projections of the centred embeddings, small enough for tanh to stay soft.

    The projection is learned on embeddings of unit length, as ITQ does, and applied to the embeddings as they are.

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


class NshObjective(Objective):
    """L_NSH = L_Sorted + weight * L_R of two views (paper, section 3.4)."""

    head: StandardisedHead

    def __init__(self, head: StandardisedHead, parameters: Nsh) -> None:
        super().__init__()
        self.head = head
        self.latent = nn.Linear(head.dim, parameters.d_z)
        self.m = parameters.m
        self.tau_s = float(head.bits) if parameters.tau_s == "d_b" else parameters.tau_s
        self.tau_c = parameters.tau_c
        self.weight = parameters.quantisation

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Loss, sorted_nce and quantisation of two views, embeddings float32 [n, dim] each."""
        inputs = self.head.standardise(torch.cat([first, second]))
        hidden_first, hidden_second = self.head.linear(inputs).tanh().chunk(2)
        latent_first, latent_second = functional.normalize(self.latent(inputs), dim=1).chunk(2)
        scores = affinity(straight_through(hidden_first), straight_through(hidden_second))
        cosines = sorted_cosines(scores, latent_first, latent_second, tau_s=self.tau_s)
        contrast = sorted_nce(cosines, m=self.m, tau_c=self.tau_c)
        distance = quantisation(hidden_first, hidden_second)
        return {"loss": contrast + self.weight * distance, "sorted_nce": contrast, "quantisation": distance}
