"""MLS3RDUH, the head only: targets for pairs from cosine and from diffusion over a graph, where the two agree.

Tu, Mao, Wei, "MLS3RDUH: Deep Unsupervised Hashing via Manifold based Local Semantic Similarity Structure
Reconstructing", IJCAI 2020. Published, on VGG-16 features of n images: each image's neighbours are the 6 % most similar
by cosine; the graph W joins images that are each other's neighbours, weighted by the cosine; the manifold similarity is
(1 - a) (I - a D^-1/2 W D^-1/2)^-1, a = 0.99. A neighbour that is also among the 9 % nearest on the manifold is similar
(1), another neighbour is not (0). The similarity of any other pair is its cosine, and so is that of pairs of an image
without edges. If the two images of a pair disagree, 1 takes precedence over 0, and both over the cosine. With targets 2
S - 1 the loss is the mean over pairs of log cosh(h_i h_j / bits - target), h = tanh of the logits. SGD, 0.04, batches
of 128, 150 epochs. Open points are read from rongchengtu1/MLS3RDUH; no code is copied.

Differences: the backbone is frozen and the head is one linear layer on standardised embeddings; Adam instead of SGD.
The graph is dense, so at most `images` training images, drawn at random, are used.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import CleanObjective, GradientMethod, draw_images
from nsh.objectives.heads.linear import StandardisedHead
from nsh.ranges import Count, InnerShare, Positive, PositiveShare, Several

WIDER = 1.5  # neighbours on the manifold to neighbours by cosine
LEAST = 1e-4  # a cosine up to this makes no neighbour


@dataclass(frozen=True, kw_only=True)
class Mls3rduh(GradientMethod):
    """Tu et al., "Manifold based Local Semantic Similarity Structure", IJCAI 2020, its head only.

    Unlike the paper: the head alone for all layers; Adam 1e-3 for SGD 0.04; 30 epochs for 150.
    """

    epochs: Count = 30
    batch: Several = 128
    learning_rate: Positive = 1e-3
    images: Several = 5000  # trained on at most, drawn at random: the graph of all pairs is dense
    share: PositiveShare = 0.06  # of the images that are an image's neighbours by cosine
    alpha: InnerShare = 0.99  # how far the diffusion goes

    name = "mls3rduh"

    def select(self, data: TrainingData, *, seed: int) -> TrainingData:
        """At most `images` training images."""
        return draw_images(data, count=self.images, seed=seed)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        similarities = similarity_targets(torch.from_numpy(data.features), share=self.share, alpha=self.alpha)
        return Mls3rduhObjective(head, data, similarities)


class Mls3rduhObjective(CleanObjective):
    """Mean log cosh of the difference between the codes' inner products and their targets."""

    similarities: Tensor

    def __init__(self, head: StandardisedHead, data: TrainingData, similarities: Tensor) -> None:
        super().__init__(head, data)
        self.register_buffer("similarities", similarities, persistent=False)

    def targets(self, rows: Tensor) -> Tensor:
        """The targets of the codes' inner products for the images in `rows`, float32 [n, n]."""
        return self.similarities[rows][:, rows]

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The loss of embeddings, float32 [n, dim]."""
        hidden = self.head(inputs).tanh()
        missed = hidden @ hidden.T / self.head.bits - targets
        return {"loss": log_cosh(missed).mean()}


def log_cosh(values: Tensor) -> Tensor:
    """Log cosh of every entry, also of large ones."""
    return values.abs() + functional.softplus(-2 * values.abs()) - torch.log(values.new_tensor(2.0))


def similarity_targets(features: Tensor, *, share: float, alpha: float) -> Tensor:
    """The target of the inner product of two images' codes, divided by the bits.

    Args:
        features: float32 [n, dim].
        share: of the images that are an image's neighbours by cosine.
        alpha: how far the diffusion goes, in (0, 1).

    Returns:
        float32 [n, n] in [-1, 1], symmetric, 1 on the diagonal.
    """
    unit = functional.normalize(features, dim=1)
    cosines = unit @ unit.T
    itself = torch.eye(len(features), dtype=torch.bool)
    near = among_largest(cosines.masked_fill(itself, -1), int(share * len(features))) & (cosines > LEAST) & ~itself
    edges = cosines * (near & near.T)
    linked = edges.sum(dim=1) > 0
    close = among_largest(diffuse(edges, alpha=alpha), int(WIDER * share * len(features)))
    known = near & linked & linked[:, None]  # images without edges have no manifold similarity
    similar, different = known & close, known & ~close
    values = cosines.clamp(0, 1).masked_fill(different | different.T, 0).masked_fill(similar | similar.T | itself, 1)
    return 2 * values - 1


def diffuse(edges: Tensor, *, alpha: float) -> Tensor:
    """(1 - a) (I - a D^-1/2 W D^-1/2)^-1; an image without edges is similar to itself alone.

    Args:
        edges: W, float32 [n, n] >= 0, symmetric, zero on the diagonal.
        alpha: a, in (0, 1).
    """
    degree = edges.sum(dim=1)
    scale = torch.where(degree > 0, degree.rsqrt(), 0)
    system = torch.eye(len(edges)) - alpha * scale[:, None] * edges * scale
    factor = torch.linalg.cholesky(system.double())  # in float32 it depends on the maker of the processor
    return (1 - alpha) * torch.cholesky_inverse(factor).to(edges.dtype)


def among_largest(values: Tensor, count: int) -> Tensor:
    """Whether an entry is among the `count` largest of its row (at least one, at most all): bool [n, n]."""
    largest = values.topk(min(max(count, 1), values.shape[1]), dim=1).indices
    return torch.zeros_like(values, dtype=torch.bool).scatter(1, largest, True)
