"""DATE, the head only: an image is the sample of its augmented views, and samples are compared by ball divergence.

Luo et al., "A Statistical Approach to Mining Semantic Similarity for Deep Unsupervised Hashing", ACM MM 2021.
Published, on VGG-16 features: the distance of two images is a smoothed ball divergence between the samples of their R
augmented views,

    BD(i, j) = 1/R sum_m [(mean_r d(z_im, z_jr) - mean_r d(z_im, z_ir))^2
                        + (mean_r d(z_jm, z_jr) - mean_r d(z_jm, z_ir))^2],

d the cosine distance. It joins the cosine distance of the images in targets with confidences; the loss has a term for
these targets and a contrastive one. Neither code nor all formulas of the text were at hand. BD is from the authors'
later survey; what is left open is read as in CIMON, of the same authors (`nsh.methods.cimon`): targets 1 or -1 by a
threshold, weights by how far the cosine distance lies from it, the mean of weight times (h_i h_j / bits - S)^2 over
both views' codes h = tanh of the logits, plus 0.3 times NT-Xent of both views' codes at temperature 0.5. CIMON has SGD,
1e-3, batches of 24, 150 epochs on 5,000 images.

Readings of ours: cosine distance and divergence give a target each, by the same share of the pairs; a pair has a target
where the two agree, and none elsewhere. R, which we did not find, is the number of cached views.

Differences: the backbone is frozen and the head is one linear layer on standardised embeddings; Adam instead of SGD.
The views are features of the frozen backbone in fine-tuning too. At most `images` training images, drawn at random, are
used.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import GradientMethod, draw_images
from nsh.objectives.graphs.guides import GuidedObjective, cosine_distances, label, weigh
from nsh.objectives.heads.linear import StandardisedHead
from nsh.ranges import Count, InnerShare, Positive, Several, Weight

CHUNK = 100  # images whose views are compared with all images at once


@dataclass(frozen=True, kw_only=True)
class Date(GradientMethod):
    """Luo et al., "Mining Semantic Similarity for Deep Unsupervised Hashing" (DATE), ACM MM 2021, its head only.

    Unlike the paper: the head alone for all layers; Adam; 30 epochs; what we did not find is as in CIMON, published
    with SGD, batches of 24 and 150 epochs.
    """

    epochs: Count = 30
    batch: Several = 64
    learning_rate: Positive = 1e-3
    images: Several = 5000  # trained on at most, drawn at random: the targets of all pairs are dense
    similar: InnerShare = 0.05  # share of the pairs that count as similar, by either distance
    contrast: Weight = 0.3  # weight of NT-Xent
    temperature: Positive = 0.5  # of NT-Xent

    name = "date"

    def select(self, data: TrainingData, *, seed: int) -> TrainingData:
        """At most `images` training images."""
        return draw_images(data, count=self.images, seed=seed)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        guides = weigh(cosine_distances(torch.from_numpy(data.features)), similar=self.similar)
        guides *= guides.sign() == label(ball_divergence(data.views), similar=self.similar)
        return GuidedObjective(head, guides[None], weight=self.contrast, temperature=self.temperature)


def ball_divergence(views: NDArray[np.float16]) -> Tensor:
    """BD of all pairs of images, in O(n^2 R dim).

    With cosine distances of unit views z and mu_i the mean of an image's, mean_r d(z, z_ir) is 1 - z mu_i. So BD(i, j)
    is A_ij + A_ji with A_ij = mean_m (z_im mu_i - z_im mu_j)^2.

    Args:
        views: float16 [n, R, dim], R >= 1; may be memory-mapped.

    Returns:
        float32 [n, n] in [0, 8], symmetric, 0 on the diagonal.
    """
    starts = range(0, len(views), CHUNK)
    means = torch.cat([_unit(views[start : start + CHUNK]).mean(dim=1) for start in starts])
    one_sided = torch.cat([_one_sided(_unit(views[start : start + CHUNK]), means, start=start) for start in starts])
    return one_sided + one_sided.T


def _unit(views: NDArray[np.float16]) -> Tensor:
    """Views float16 [m, R, dim] at unit length, float32."""
    return functional.normalize(torch.from_numpy(np.asarray(views, np.float32)), dim=2)


def _one_sided(unit: Tensor, means: Tensor, *, start: int) -> Tensor:
    """A_ij of the images from `start` on, float32 [m, n], of their unit views [m, R, dim] and all means [n, dim]."""
    cosines = unit @ means.T
    rows = torch.arange(len(unit))
    own = cosines[rows, :, start + rows]
    return (own[:, :, None] - cosines).square().mean(dim=1)
