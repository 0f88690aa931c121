"""Hashing-Baseline: principal directions and a random rotation, nothing learned but the covariance.

Moummad et al., "Hashing-Baseline: Rethinking Hashing in the Age of Pretrained Models", arXiv 2509.14427, 2025.
Published, on the frozen features of a pretrained network: centre, project on the first principal directions, one for
each bit, rotate by a random orthogonal matrix (the Q of a Gaussian matrix), and cut each coordinate at 0 (a sigmoid at
1/2). It is ITQ without its iterations, and PCAH with a rotation: the difference to each shows what these are worth.

Differences: images are normalised to unit length first, as for ITQ and PCAH.
"""

from dataclasses import dataclass

from nsh.errors import TrainingError
from nsh.objectives.base import HashHead, Loop, Report, TrainingData
from nsh.objectives.closed_forms.rotation import principal_directions, random_rotation
from nsh.objectives.heads.binary import rounding_error
from nsh.objectives.heads.linear import UnitHead, unit_features


@dataclass(frozen=True, kw_only=True)
class HashingBaseline:
    """Moummad et al., "Hashing-Baseline", arXiv 2509.14427, 2025."""

    name = "hashing_baseline"

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Find the principal directions and draw the rotation from `seed`; needs no loop.

        `report` gets one {"epoch": 1, "loss": rounding error}, which ITQ would minimise.

        Raises:
            TrainingError: more bits than features.
        """
        if bits > data.dim:
            raise TrainingError(
                f"Hashing-Baseline finds at most as many bits as there are features: {bits} bits asked for, {data.dim} "
                f"features found; choose bits <= {data.dim} or a backbone with longer embeddings"
            )
        features = unit_features(data)
        mean = features.mean(dim=0)
        directions = principal_directions(features - mean, count=bits) @ random_rotation(bits, seed=seed)
        report({"epoch": 1, "loss": rounding_error((features - mean) @ directions)})
        head = self.head(data.dim, bits)
        head.set_projection(directions, origin=mean)
        return head

    def head(self, dim: int, bits: int) -> UnitHead:
        """An empty head: logits = (x / |x| - mean) W R as one affine map."""
        return UnitHead(dim, bits)
