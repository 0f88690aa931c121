"""The base of methods that sort neighbours: pairs of an image and a neighbour, lists with a queue. Knows no parameters.

`nsh.methods.nsh_plus` describes what this adds to NSH (Yu et al., "Learning to Hash Naturally Sorts", IJCAI 2022).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from nsh.errors import TrainingError
from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.closed_forms.whitened import WhitenedHead
from nsh.objectives.contrast import ntxent
from nsh.objectives.gradient import GradientMethod
from nsh.objectives.graphs.neighbours import share_neighbours
from nsh.objectives.heads.binary import straight_through
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.noise import Noise
from nsh.objectives.sorting.softsort import affinity
from nsh.objectives.sorting.sorted_queue import Queue, level_cosines, level_nce

SIGHT = 32  # directions, of the most telling, in which neighbours are looked for: more of them find worse ones


class NeighbourObjective(Objective):
    """NT-Xent of the codes + sorting * SortedNCE of the latents, of images and their neighbours."""

    head: StandardisedHead
    neighbours: Tensor

    def __init__(
        self,
        head: StandardisedHead,
        parameters: "NeighbourMethod",
        *,
        views: NDArray[np.float16],
        neighbours: Tensor,
        seed: int,
    ) -> None:
        super().__init__()
        self.head = head
        self.d_z = min(parameters.d_z, parameters.directions, head.dim)
        self.queue = Queue(parameters.queue, bits=head.bits, d_z=self.d_z)
        self.noise = Noise(seed=seed)
        self.loss = parameters
        self.views = views
        self.register_buffer("neighbours", neighbours, persistent=False)

    def cached_loss(self, rows: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """The terms of a view of the images in `rows` and a view of one neighbour each; `second` is not used."""
        terms: dict[str, Tensor] = self(first, self.draw_neighbours(rows).to(first.device))
        return terms

    def tune(self, rows: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """The terms of a view of the images in `rows` and a view of one neighbour each."""
        terms: dict[str, Tensor] = self(first, second)
        return terms

    def partners(self, rows: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """A random neighbour of each image in `rows`, int64 [n]."""
        neighbours: NDArray[np.int64] = self.neighbours.cpu().numpy()
        return neighbours[rows, generator.integers(neighbours.shape[1], size=len(rows))]

    def draw_neighbours(self, rows: Tensor) -> Tensor:
        """A random view of a random neighbour of each image in `rows`, int64 [n]: float32 [n, dim]."""
        which, view = self.noise.uniform(2, len(rows)).double().cpu()  # as double a number below 1 stays below 1
        chosen = self.neighbours[rows, (which * self.neighbours.shape[1]).long().to(rows.device)]
        read = self.views[chosen.cpu().numpy(), (view * self.views.shape[1]).long().numpy()]
        return torch.from_numpy(read).float()

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Loss, sorted_nce and contrast of two views, embeddings float32 [n, dim] each."""
        seen = self.head.standardise(torch.cat([first, second]))
        codes = straight_through(self.head.finish(self.head.hide(seen)).tanh()).chunk(2)
        latents = functional.normalize(seen[:, : self.d_z], dim=1).chunk(2)
        contrast, sorted_nce = self.compare(codes, latents)
        self.queue.put(codes[1], latents[0])
        return {"loss": contrast + self.loss.sorting * sorted_nce, "sorted_nce": sorted_nce, "contrast": contrast}

    def compare(self, codes: Sequence[Tensor], latents: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """NT-Xent of the codes of two views, and SortedNCE of their latents in the order of the codes: scalars.

        Args:
            codes: of either view, float32 [n, at most bits]: all bits of the head, or the first of them.
            latents: of either view, float32 [n, d_z].
        """
        contrast = ntxent(*codes, temperature=self.loss.temperature)
        sides = [self.sort(codes[a], (codes[b], latents[a]), latents[b]) for a, b in ((0, 1), (1, 0))]
        return contrast, (sides[0] + sides[1]) / 2

    def sort(self, queries: Tensor, batch: tuple[Tensor, Tensor], anchors: Tensor) -> Tensor:
        """SortedNCE of the queries' lists, codes [n, bits], over codes and latents of the batch and of the queue."""
        bits, (codes, latents) = queries.shape[1], self.queue.after(*batch)
        scores, tau_s = affinity(queries, codes), self.loss.tau_s / bits  # a step is 1 / bits of the affinity
        cosines, ranks = level_cosines(scores, latents, anchors, tau_s=tau_s, most=bits + 1)
        return level_nce(cosines, ranks, m=self.loss.m, tau_c=self.loss.tau_c)


@dataclass(frozen=True, kw_only=True)
class NeighbourMethod(GradientMethod):
    """A gradient method on whitened embeddings; its subclasses say what the parameters mean."""

    m: int
    tau_s: float
    tau_c: float
    d_z: int
    queue: int
    sorting: float
    temperature: float
    neighbours: float
    directions: int
    hidden: int

    minimised: ClassVar[type[NeighbourObjective]] = NeighbourObjective

    def head(self, dim: int, bits: int) -> WhitenedHead:
        """An empty hash head."""
        return WhitenedHead(dim, bits, hidden=self.hidden, directions=self.directions)

    def objective(self, data: TrainingData, *, bits: int, seed: int) -> Objective:
        """A fresh objective on whitened embeddings.

        Raises:
            TrainingError: there is one image, or all embeddings are equal.
        """
        if len(data.features) < 2:
            raise TrainingError("found 1 training image, which has no neighbour: raise split.train")
        return super().objective(data, bits=bits, seed=seed)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`, with neighbours found in its whitened embeddings."""
        count = math.ceil(self.neighbours * len(data.features))
        neighbours = find_neighbours(head, data, count=count)
        return self.minimised(head, self, views=data.views, neighbours=neighbours, seed=seed)


@torch.no_grad()
def find_neighbours(head: StandardisedHead, data: TrainingData, *, count: int) -> Tensor:
    """At most `count` neighbours of every clean training image in the head's first directions, int64 [n, count]."""
    seen = head.standardise(torch.from_numpy(data.features))[:, :SIGHT]
    return share_neighbours(seen, count=min(count, len(seen) - 1))
