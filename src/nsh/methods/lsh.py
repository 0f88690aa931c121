"""LSH: the side of random hyperplanes on which an image lies.

Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002, section 3: for a direction drawn from
the spherical Gaussian, two vectors differ in the bit with probability angle / pi, so that the Hamming distance divided
by the bits estimates the angle. Nothing is learned; it is the baseline for all learned methods.

Differences: the hyperplanes go through the mean of the training images, not through 0, and images have unit length. The
features of a rectified network are in one orthant, which few hyperplanes through 0 divide. The estimated angle is the
one at the mean.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional

from nsh.objectives.base import HashHead, Loop, Report, TrainingData
from nsh.objectives.heads.binary import rounding_error
from nsh.objectives.heads.linear import UnitHead, unit_features


@dataclass(frozen=True, kw_only=True)
class Lsh:
    """Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002."""

    name = "lsh"

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Draw the hyperplanes from `seed`; needs no loop.

        `report` gets one {"epoch": 1, "loss": rounding error}, which LSH does not minimise.
        """
        features = unit_features(data)
        mean = features.mean(dim=0)
        generator = torch.Generator().manual_seed(seed)
        gaussian = torch.randn(data.dim, bits, dtype=torch.float64, generator=generator)
        directions = functional.normalize(gaussian, dim=0)
        report({"epoch": 1, "loss": rounding_error((features - mean) @ directions)})
        head = self.head(data.dim, bits)
        head.set_projection(directions, origin=mean)
        return head

    def head(self, dim: int, bits: int) -> UnitHead:
        """An empty head: logits = (x / |x| - mean) directions as one affine map."""
        return UnitHead(dim, bits)
