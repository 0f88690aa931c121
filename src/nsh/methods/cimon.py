"""CIMON, the head only: targets of pairs, weighted by the confidence from their distance and their clusters.

Luo, Wu, Ma, Chen, Deng, Huang, Hua, "CIMON: Towards High-quality Hash Codes", IJCAI 2021 (arXiv 2010.07804).
Published, on VGG-16 features of two augmented views of n images, for each view: two images are similar (S = 1) if
their cosine distance d is at most t = 0.1, else not (-1). The histogram of d has a peak; half a Gaussian is fitted to
each side of it. A pair's weight is how far d lies from t in the distribution of its side: (Phi(t) - Phi(d)) / Phi(t)
if d <= t, (Phi(d) - Phi(t)) / (1 - Phi(t)) else; and 0 where spectral clustering (70 clusters) disagrees, a similar
pair lying in two clusters or a dissimilar one in one. With h = tanh of the logits the loss is the mean of weight
times (h_i h_j / bits - S)^2, summed over the codes of both views and the targets of both views, so that each view
also learns the other's, plus 0.3 times NT-Xent of both views' codes at temperature 0.5. SGD, 1e-3, batches of 24, 150
epochs on 5,000 images. Open points are read from luoxiao12/CIMON; no code is copied.

Differences: the backbone is frozen and the head is one linear layer on standardised embeddings; Adam instead of SGD.
The threshold is a share of the pairs, not a distance: 0.1 is for VGG, and no pair of MobileNetV2's features on CIFAR-10
is so near. Targets are those of the first and the last cached view. At most `images` training images, drawn at random,
are used. Clusters are k-means on the leading eigenvectors of the normalised affinity exp(-|x_i - x_j|^2) of unit
features, by subspace iteration; the authors' code rounds the eigenvectors.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nsh.errors import TrainingError
from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import GradientMethod, draw_images
from nsh.objectives.graphs.clusters import find_clusters
from nsh.objectives.graphs.guides import GuidedObjective, cosine_distances, weigh
from nsh.objectives.heads.linear import StandardisedHead
from nsh.ranges import Count, InnerShare, Positive, Several, Weight

ROUNDS = 30  # of the subspace iteration


@dataclass(frozen=True, kw_only=True)
class Cimon(GradientMethod):
    """Luo et al., "CIMON: Towards High-quality Hash Codes", IJCAI 2021, its head only.

    Unlike the paper: the head alone for all layers; Adam for SGD; batches of 64 for 24; 30 epochs for 150; pairs are
    similar by a share of all, 8 %, for the distance 0.1.
    """

    epochs: Count = 30
    batch: Several = 64
    learning_rate: Positive = 1e-3
    images: Several = 5000  # trained on at most, drawn at random: the targets of all pairs are dense
    similar: InnerShare = 0.08  # share of the pairs that count as similar
    clusters: Count = 70  # of the images; pairs that are similar across two clusters do not count
    contrast: Weight = 0.3  # weight of NT-Xent
    temperature: Positive = 0.5  # of NT-Xent

    name = "cimon"

    def select(self, data: TrainingData, *, seed: int) -> TrainingData:
        """At most `images` training images."""
        return draw_images(data, count=self.images, seed=seed)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`.

        Raises:
            TrainingError: fewer (different) images than clusters.
        """
        if len(data.features) < self.clusters:
            raise TrainingError(
                f"found {len(data.features)} training images for {self.clusters} clusters: lower clusters or raise "
                "split.train"
            )
        views = (torch.from_numpy(data.views[:, view].astype(np.float32)) for view in (0, -1))
        guides = [guide(view, similar=self.similar, clusters=self.clusters, seed=seed) for view in views]
        return GuidedObjective(head, torch.stack(guides), weight=self.contrast, temperature=self.temperature)


def guide(features: Tensor, *, similar: float, clusters: int, seed: int) -> Tensor:
    """The targets of all pairs, times their weights.

    Args:
        features: one view of n images, float32 [n, dim].
        similar: share of the pairs that count as similar.
        clusters: how many.
        seed: of the clusters.

    Returns:
        float32 [n, n] in [-1, 1]: its sign is S, its size the weight.

    Raises:
        TrainingError: fewer different images than clusters.
    """
    distances = cosine_distances(features)
    guides = weigh(distances, similar=similar)
    members = cluster(distances, count=clusters, seed=seed)
    together = torch.where(members[:, None] == members, 1.0, -1.0)
    return guides * (guides.sign() == together)


def cluster(distances: Tensor, *, count: int, seed: int) -> Tensor:
    """Spectral clusters of images, int64 [n], from their cosine distances, float32 [n, n].

    Raises:
        TrainingError: fewer different images than clusters.
    """
    vectors = spectral_vectors(distances, count=count, seed=seed)
    return find_clusters(vectors, count=count, seed=seed, name="clusters")[1]


def spectral_vectors(distances: Tensor, *, count: int, seed: int) -> Tensor:
    """Images in the span of the `count` leading eigenvectors of D^-1/2 A D^-1/2, A = e^(-|x - y|^2): unit rows.

    Args:
        distances: cosine distances, float32 [n, n].
        count: the number of eigenvectors.
        seed: of the subspace iteration's start; it decides the basis, not the span.

    Returns:
        float64 [n, count].
    """
    affinity = (-2 * distances).exp()  # |x - y|^2 = 2 d for unit vectors
    scale = affinity.sum(dim=1).rsqrt()
    normalised = scale[:, None] * affinity * scale
    basis = torch.randn(len(distances), count, generator=torch.Generator().manual_seed(seed))
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(normalised @ basis).Q
    return functional.normalize(basis, dim=1).double()
