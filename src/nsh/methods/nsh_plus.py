"""NSH among neighbours: positives from the graph of shared neighbours, lists from a queue. Ours, not published.

From NSH (Yu, Shen, Wang, Zhang, Torr, "Learning to Hash Naturally Sorts", IJCAI 2022; see `nsh.methods.nsh`): bits by
the sign with the gradient of the identity, items sorted softly by the distance of their codes, SortedNCE on their
latents in that order.

New here:

- A pair is a view of an image and a view of one of its neighbours, the images that share most neighbours with it
  (`nsh.objectives.graphs.neighbours`), and not two views of one image. This gives most of the gain.
- Embeddings are projected on the directions in which images differ and their views do not
  (`nsh.objectives.closed_forms.whitening`). Neighbours are found there, and it is the input of the hash head, which has
  a hidden layer.
- An image's latent is its projection on the first of these directions and is not learned, so the sorted list teaches
  the codes which images are similar. A learned latent head helped at 16 bits alone (docs/experiments.md).
- NT-Xent on the codes (Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020;
  on codes: Qiu et al., IJCAI 2021) is added, and logits are normalised over the batch: a hidden layer under SortedNCE
  alone ended at chance. L_R is left out, because the bits are balanced already.
- Lists are longer than a batch: a queue holds the codes and latents of former steps
  (`nsh.objectives.sorting.sorted_queue`).
- The loss is symmetric: each side of a pair is the anchor once.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from nsh.errors import TrainingError
from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.closed_forms.whitening import discriminant_directions
from nsh.objectives.contrast import ntxent
from nsh.objectives.gradient import GradientMethod
from nsh.objectives.graphs.neighbours import share_neighbours
from nsh.objectives.heads.binary import straight_through
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.heads.perceptron import PerceptronHead
from nsh.objectives.noise import Noise
from nsh.objectives.sorting.softsort import affinity
from nsh.objectives.sorting.sorted_queue import Queue, level_cosines, level_nce
from nsh.ranges import Count, Positive, Several, Weight

SIGHT = 32  # directions, of the most telling, in which neighbours are looked for: more of them find worse ones


class WhitenedHead(PerceptronHead):
    """One hidden layer on whitened embeddings, balanced: logits = norm(W relu(V P^T ((x - mean) / scale) + c)).

    The batch normalisation has no learned scale or shift, so that in a batch no bit is constant and no logit saturates.
    """

    directions: Tensor

    def __init__(self, dim: int, bits: int, *, hidden: int, directions: int) -> None:
        kept = min(directions, dim)
        super().__init__(dim, bits, hidden=hidden, inputs=kept)
        self.register_buffer("directions", torch.zeros(dim, kept))
        self.balance = nn.BatchNorm1d(bits, affine=False)

    @torch.no_grad()
    def fit_inputs(self, data: TrainingData) -> None:
        """Fit mean and scale, then the directions of standardised training images.

        Raises:
            TrainingError: all training images have the same embedding.
        """
        super().fit_inputs(data)
        scale = self.scale.double()
        features = (torch.from_numpy(data.features).double() - self.mean) / scale
        count = self.directions.shape[1]
        self.directions.copy_(discriminant_directions(features, data.views, scale=scale, count=count))

    def standardise(self, embeddings: Tensor) -> Tensor:
        """Embeddings float32 [n, dim] to their whitened projections, float32 [n, directions]."""
        return super().standardise(embeddings) @ self.directions

    def finish(self, hidden: Tensor) -> Tensor:
        """Logits float32 [n, bits] of the hidden layer, float32 [n, hidden]."""
        return self.balance(super().finish(hidden))  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class NshPlus(GradientMethod):
    """NSH among neighbours, ours."""

    epochs: Count = 8
    batch: Several = 128
    learning_rate: Positive = 2e-3
    m: Count = 10  # positives at the head of the sorted list, 1 <= m < batch
    tau_s: Positive = 0.05  # softsort temperature on the affinity in [0, 1]
    tau_c: Positive = 0.2  # contrastive temperature of SortedNCE
    d_z: Count = 16  # length of the latent vector: the first of the directions
    queue: Count = 256  # codes and latents of earlier steps, behind the batch in the sorted list
    sorting: Weight = 1.0  # weight of SortedNCE
    temperature: Positive = 0.3  # of NT-Xent on the codes
    neighbours: Count = 60  # of each image, one of which is its positive in a step
    directions: Count = 128  # of the whitened embedding
    hidden: Count = 512  # length of the hidden layer

    name = "nsh_plus"

    def __post_init__(self) -> None:
        if not 1 <= self.m < self.batch:
            raise ValueError(f"m = {self.m} positives in a list of {self.batch}: choose 1 <= m < batch")

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
        neighbours = find_neighbours(head, data, count=self.neighbours)
        return NshPlusObjective(head, self, views=data.views, neighbours=neighbours, seed=seed)


@torch.no_grad()
def find_neighbours(head: StandardisedHead, data: TrainingData, *, count: int) -> Tensor:
    """At most `count` neighbours of every clean training image in the head's first directions, int64 [n, count]."""
    seen = head.standardise(torch.from_numpy(data.features))[:, :SIGHT]
    return share_neighbours(seen, count=min(count, len(seen) - 1))


class NshPlusObjective(Objective):
    """NT-Xent of the codes + sorting * SortedNCE of the latents, of images and their neighbours."""

    head: StandardisedHead
    neighbours: Tensor

    def __init__(
        self, head: StandardisedHead, parameters: NshPlus, *, views: NDArray[np.float16], neighbours: Tensor, seed: int
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
        contrast = ntxent(*codes, temperature=self.loss.temperature)
        sides = [self.sort(codes[a], (codes[b], latents[a]), latents[b]) for a, b in ((0, 1), (1, 0))]
        self.queue.put(codes[1], latents[0])
        sorted_nce = (sides[0] + sides[1]) / 2
        return {"loss": contrast + self.loss.sorting * sorted_nce, "sorted_nce": sorted_nce, "contrast": contrast}

    def sort(self, queries: Tensor, batch: tuple[Tensor, Tensor], anchors: Tensor) -> Tensor:
        """SortedNCE of the queries' lists, codes [n, bits], over codes and latents of the batch and of the queue."""
        codes, latents = self.queue.after(*batch)
        scores, most = affinity(queries, codes), codes.shape[1] + 1
        cosines, ranks = level_cosines(scores, latents, anchors, tau_s=self.loss.tau_s, most=most)
        return level_nce(cosines, ranks, m=self.loss.m, tau_c=self.loss.tau_c)
