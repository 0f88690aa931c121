"""PCAH: the signs of the principal components.

The unsupervised case of Wang, Kumar, Chang, "Semi-Supervised Hashing for Scalable Image Retrieval", CVPR 2010: bits of
greatest variance, uncorrelated, are relaxed to the leading eigenvectors of the covariance, and cut at the mean. It is
ITQ without the rotation ("PCA-Direct" there), and shows the gain of the rotation.

Differences: images are normalised to unit length first, as for ITQ.
"""

from dataclasses import dataclass

from nsh.errors import TrainingError
from nsh.objectives.base import HashHead, Loop, Report, TrainingData
from nsh.objectives.closed_forms.rotation import principal_directions
from nsh.objectives.heads.binary import rounding_error
from nsh.objectives.heads.linear import UnitHead, unit_features

LEAST_SPREAD = 1e-6  # of images of unit length along a direction; less is rounding


@dataclass(frozen=True, kw_only=True)
class Pcah:
    """Wang et al., "Semi-Supervised Hashing for Scalable Image Retrieval", CVPR 2010, no labels."""

    name = "pcah"

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Find the principal directions; needs neither loop nor seed.

        `report` gets one {"epoch": 1, "loss": rounding error}, which ITQ would minimise.

        Raises:
            TrainingError: the training images vary in fewer directions than there are bits.
        """
        features = unit_features(data)
        mean = features.mean(dim=0)
        directions = principal_directions(features - mean, count=bits)
        projected = (features - mean) @ directions
        found = int((projected.std(dim=0, correction=0) > LEAST_SPREAD).sum())
        if found < bits:
            raise TrainingError(
                f"PCAH needs a direction of variance for each bit: {bits} bits asked for, {found} found in "
                f"{len(features)} training images with {data.dim} features; choose fewer bits, more images or "
                "a backbone with longer embeddings"
            )
        report({"epoch": 1, "loss": rounding_error(projected)})
        head = self.head(data.dim, bits)
        head.set_projection(directions, origin=mean)
        return head

    def head(self, dim: int, bits: int) -> UnitHead:
        """An empty head: logits = (x / |x| - mean) W as one affine map."""
        return UnitHead(dim, bits)
