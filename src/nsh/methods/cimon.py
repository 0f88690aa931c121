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
from nsh.objectives.contrast import ntxent
from nsh.objectives.gradient import GradientMethod, draw_images
from nsh.objectives.graphs.anchors import find_anchors, nearest_anchors
from nsh.objectives.heads.linear import StandardisedHead
from nsh.ranges import Count, InnerShare, Positive, Several, Weight

BINS = 100  # of the histogram of distances, over [0, 1)
ROUNDS = 30  # of the subspace iteration
LEAST_SPREAD = 1e-6  # of half a Gaussian, for images that are all alike


@dataclass(frozen=True, kw_only=True)
class Cimon(GradientMethod):
    """Luo et al., "CIMON: Towards High-quality Hash Codes", IJCAI 2021, its head only."""

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
        return CimonObjective(head, guides, self)


class CimonObjective(Objective):
    """Loss of both views' codes with both views' targets + weight * NT-Xent."""

    first_guide: Tensor
    second_guide: Tensor

    def __init__(self, head: StandardisedHead, guides: list[Tensor], parameters: Cimon) -> None:
        super().__init__()
        self.head = head
        self.register_buffer("first_guide", guides[0], persistent=False)
        self.register_buffer("second_guide", guides[1], persistent=False)
        self.weight = parameters.contrast
        self.temperature = parameters.temperature

    def cached_loss(self, rows: Tensor, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Loss, semantic and contrast of two views of the images in `rows`."""
        codes = self.head(torch.cat([first, second])).tanh().chunk(2)
        guides = [one[rows][:, rows] for one in (self.first_guide, self.second_guide)]
        semantic = torch.stack([consistency(one, by) for one in codes for by in guides]).sum()
        contrast = ntxent(*codes, temperature=self.temperature)
        return {"loss": semantic + self.weight * contrast, "semantic": semantic, "contrast": contrast}


def consistency(codes: Tensor, guides: Tensor) -> Tensor:
    """Mean over pairs of weight (h_i h_j / bits - S)^2.

    Args:
        codes: h, float [n, bits] in [-1, 1].
        guides: weight times S, float [n, n].
    """
    missed = codes @ codes.T / codes.shape[1] - guides.sign()
    return (guides.abs() * missed.square()).mean()


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
    unit = functional.normalize(features, dim=1)
    distances = (1 - unit @ unit.T).clamp_min(0).fill_diagonal_(0)
    apart = distances[~torch.eye(len(features), dtype=torch.bool)].numpy()
    threshold = float(np.quantile(apart, similar)) if len(apart) else 0.0
    signs = torch.where(distances <= threshold, 1.0, -1.0)
    members = cluster(distances, count=clusters, seed=seed)
    together = torch.where(members[:, None] == members, 1.0, -1.0)
    return signs * confidence(distances, apart=torch.from_numpy(apart), threshold=threshold) * (signs == together)


def confidence(distances: Tensor, *, apart: Tensor, threshold: float) -> Tensor:
    """How far each distance lies from the threshold, in its side's half Gaussian: 0 at the threshold, 1 far away.

    Args:
        distances: float [n, n] >= 0.
        apart: distances of different images, float [n (n - 1)]: what the Gaussians are fitted to.
        threshold: between similar and not.

    Returns:
        float [n, n] in [0, 1].
    """
    peak = float(torch.histc(apart, BINS, 0, 1).argmax()) / BINS
    left, right = (_half_spread(apart[side] - peak) for side in (apart <= peak, apart > peak))
    at = torch.tensor([(threshold - peak) / left, (threshold - peak) / right]).to(distances)
    lower, upper = torch.special.ndtr(at)
    similar = 1 - torch.special.ndtr((distances - peak) / left) / lower.clamp_min(torch.finfo(lower.dtype).tiny)
    beyond = torch.special.ndtr((peak - distances) / right) / (1 - upper).clamp_min(torch.finfo(upper.dtype).tiny)
    return torch.where(distances <= threshold, similar, 1 - beyond).clamp(0, 1)


def _half_spread(differences: Tensor) -> float:
    mean_square = differences.double().square().sum() / max(len(differences), 1)
    return max(float(mean_square.sqrt()), LEAST_SPREAD)


def cluster(distances: Tensor, *, count: int, seed: int) -> Tensor:
    """Spectral clusters of images, int64 [n], from their cosine distances, float32 [n, n].

    Raises:
        TrainingError: fewer different images than clusters.
    """
    vectors = spectral_vectors(distances, count=count, seed=seed)
    try:
        centres = find_anchors(vectors, count=count, seed=seed)
    except TrainingError as error:
        raise TrainingError(
            f"found fewer than {count} different training images for {count} clusters: lower clusters or raise "
            "split.train"
        ) from error
    return nearest_anchors(vectors, centres, count=1)[1].squeeze(1)


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
