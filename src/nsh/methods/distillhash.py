"""DistillHash, the head only: learn from those pairs of images whose label a Bayes optimal classifier is sure of.

Yang, Liu, Deng, Liu, Tao, "DistillHash: Unsupervised Deep Hashing by Distilling Data Pairs", CVPR 2019. Published, on
VGG-16 with all layers trained and 5,000 images. Pairs get noisy labels from the features' local structure. A first
network learns P_ij = sigmoid(h_i h_j / 2), the chance that the noisy label is 1, from them, h = tanh of the logits. If
a similar pair is mislabelled with probability rho+ and a dissimilar one with rho-, P = (1 - rho+ - rho-) eta + rho-,
eta the chance that the pair is similar. So rho- <= P and rho+ <= 1 - P, and if both change slowly among neighbours,
also the least P and 1 - P among the pairs of their neighbours bound them (r- and r+ below). P > (1 + r-) / 2 implies
eta > 1/2: the pair is kept as similar; P < (1 - r+) / 2 implies eta < 1/2: it is kept as dissimilar; all else is left
out. A second network learns from the pairs that are kept, by the likelihood with sigmoid(h_i h_j / 2).

Read from the authors' code (no code is copied): r- is over the images in ranks 2 to 21 by cosine on both sides, rank 0
the image itself, r+ over ranks 0 to 19; batches of 80, 20 epochs. It takes both images from the neighbours of one side,
which leaves no similar pair of binary codes; here each side has its own. It trains both networks by a squared error;
here both use the likelihood, because the bounds need a P that is calibrated. Where its noisy labels come from is open:
here the nearest `similar` share of the pairs by cosine is similar. The rule of SSDH, by the same authors (two standard
deviations below the peak of the distances), calls 2.8 % similar on CIFAR-10, and none where all images are close.

Differences: the backbone is frozen, so pairs are distilled once, on its features; a network is one linear layer on
standardised embeddings; Adam 1e-3. An image is no pair with itself, and a batch without pairs is not drawn again. At
most `images` training images, drawn at random, are used. An epoch's record has the share of its pairs that were kept,
and the share of these that are similar.

Inner products cannot all be negative, so P is near 1/2 or above for most pairs, however rare similar ones are. On
CIFAR-10 the pairs kept as similar are therefore right less often than the noisy ones (docs/experiments.md).
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nsh.errors import TrainingError
from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import CleanObjective, GradientMethod, draw_images, draw_layers
from nsh.objectives.graphs.guides import cosine_distances, label
from nsh.objectives.heads.linear import StandardisedHead
from nsh.ranges import Count, InnerShare, Positive, Several

SKIPPED = 2  # nearest images, itself among them, that r- leaves out


@dataclass(frozen=True, kw_only=True)
class DistillHash(GradientMethod):
    """Yang et al., "DistillHash: Distilling Data Pairs", CVPR 2019, its head only.

    Unlike the paper: the head alone for all layers; batches of 128 for 80; 30 epochs for 20; noisy labels by a share of
    the pairs, because the published rule is not described.
    """

    epochs: Count = 30
    batch: Several = 128
    learning_rate: Positive = 1e-3
    images: Several = 5000  # trained on at most, drawn at random: the labels of all pairs are dense
    similar: InnerShare = 0.03  # share of the pairs that the noisy labels call similar
    neighbours: Several = 20  # of an image, whose chances bound how often labels are wrong
    warm_up: Count = 5  # epochs on the noisy labels, before pairs are distilled

    name = "distillhash"

    def select(self, data: TrainingData, *, seed: int) -> TrainingData:
        """At most `images` training images."""
        return draw_images(data, count=self.images, seed=seed)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`, with the pairs that were distilled.

        Raises:
            TrainingError: too few images for the neighbours, or no similar pair, without which all codes are equal or
                opposite.
        """
        if len(data.features) < self.neighbours + SKIPPED:
            raise TrainingError(
                f"found {len(data.features)} training images, {self.neighbours} neighbours of each need "
                f"{self.neighbours + SKIPPED}: lower neighbours or raise split.train"
            )
        distances = cosine_distances(torch.from_numpy(data.features))
        noisy = label(distances, similar=self.similar).fill_diagonal_(0)
        chances = self.learn_chances(head, data, noisy, seed=seed)
        kept = distil(chances, distances, neighbours=self.neighbours)
        if not bool((kept > 0).any()):
            raise TrainingError(
                f"DistillHash kept no similar pair of {len(kept)} training images: look at the images and the "
                "backbone's weights, or lower neighbours"
            )
        return DistillHashObjective(head, data, kept)

    def learn_chances(self, head: StandardisedHead, data: TrainingData, labels: Tensor, *, seed: int) -> Tensor:
        """P of all pairs, float32 [n, n], by a network like `head` that learns from noisy labels, float32 [n, n]."""
        objective = DistillHashObjective(copy.deepcopy(head), data, labels)
        draw_layers(objective, seed=seed)
        optimiser = torch.optim.Adam(objective.parameters(), lr=self.learning_rate, fused=True)
        generator = np.random.default_rng(seed)
        for _ in range(self.warm_up):
            order = torch.from_numpy(generator.permutation(len(labels)))
            for start in range(0, len(order) - self.batch + 1, self.batch):
                rows = order[start : start + self.batch]
                optimiser.zero_grad()
                loss = objective.terms(objective.features[rows], objective.targets(rows))["loss"]
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        with torch.no_grad():
            hidden: Tensor = objective.head(objective.features).tanh()
            return (hidden @ hidden.T / 2).sigmoid()


class DistillHashObjective(CleanObjective):
    """Likelihood of the labels of pairs."""

    labels: Tensor

    def __init__(self, head: StandardisedHead, data: TrainingData, labels: Tensor) -> None:
        super().__init__(head, data)
        self.register_buffer("labels", labels, persistent=False)

    def targets(self, rows: Tensor) -> Tensor:
        """The labels of the pairs of images in `rows`, float32 [n, n]."""
        return self.labels[rows][:, rows]

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Loss, share of pairs that are kept, and share of these that are similar, of embeddings float32 [n, dim]."""
        kept = targets.abs().mean()
        similar = (targets > 0).to(targets.dtype).mean() / kept.clamp_min(torch.finfo(targets.dtype).tiny)
        return {"loss": surprise(self.head(inputs).tanh(), targets), "kept": kept, "similar": similar}


def surprise(hidden: Tensor, labels: Tensor) -> Tensor:
    """Mean over labelled pairs of -log P(S_ij), P(1) = sigmoid(h_i h_j / 2); 0 if there is none.

    Args:
        hidden: h, float [n, bits] in [-1, 1].
        labels: S, float [n, n]: 1, -1, or 0 for a pair without a label.
    """
    losses = functional.softplus(-labels * (hidden @ hidden.T) / 2) * labels.abs()
    return losses.sum() / labels.abs().sum().clamp_min(1)


def distil(chances: Tensor, distances: Tensor, *, neighbours: int) -> Tensor:
    """The pairs whose Bayes optimal label is certain.

    Args:
        chances: P, float [n, n] in [0, 1], symmetric.
        distances: of the features, float [n, n] >= 0: they say who is whose neighbour.
        neighbours: on each side, at most n - 2.

    Returns:
        float [n, n]: 1 similar, -1 dissimilar, 0 left out; 0 on the diagonal.
    """
    from_itself = distances.clone().fill_diagonal_(-1)  # so that an image comes before its duplicates
    ranks = from_itself.topk(neighbours + SKIPPED, dim=1, largest=False).indices
    wrong_dissimilar = find_least(chances, ranks[:, SKIPPED:])
    wrong_similar = find_least(1 - chances, ranks[:, :neighbours])
    similar, dissimilar = chances > (1 + wrong_dissimilar) / 2, chances < (1 - wrong_similar) / 2
    return (similar.to(chances.dtype) - dissimilar.to(chances.dtype)).fill_diagonal_(0)


def find_least(values: Tensor, neighbours: Tensor) -> Tensor:
    """Least value among the pairs of neighbours of i and of j, float [n, n], in O(neighbours n^2).

    Args:
        values: float [n, n], symmetric.
        neighbours: rows of images, int64 [n, count], count >= 1.
    """
    return _least_of_rows(_least_of_rows(values, neighbours).T, neighbours)


def _least_of_rows(values: Tensor, neighbours: Tensor) -> Tensor:
    least = values[neighbours[:, 0]]
    for rank in neighbours.T[1:]:
        least = torch.minimum(least, values[rank])
    return least
