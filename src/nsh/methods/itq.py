"""ITQ: principal directions, rotated to minimise the rounding error of bits.

Gong, Lazebnik, Gordo, Perronnin, "Iterative Quantization: A Procrustean Approach to Learning Binary Codes for
Large-Scale Image Retrieval", TPAMI 2013. A closed form: it uses clean features only, no views and no gradient.
"""

from dataclasses import dataclass

from nsh.objectives.base import HashHead, Loop, Report, TrainingData
from nsh.objectives.closed_forms.rotation import learn_projection
from nsh.objectives.heads.linear import UnitHead, unit_features
from nsh.ranges import Count


@dataclass(frozen=True, kw_only=True)
class Itq:
    """Gong et al., "Iterative Quantization", TPAMI 2013."""

    iterations: Count = 50

    name = "itq"

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Learn the projection on features of unit length; needs no loop.

        `report` gets {"epoch": iteration, "loss": quantisation error} once an iteration.

        Raises:
            TrainingError: more bits than features.
        """
        features = unit_features(data)
        mean = features.mean(dim=0)
        projection = learn_projection(features - mean, bits=bits, iterations=self.iterations, seed=seed, report=report)
        head = self.head(data.dim, bits)
        head.set_projection(projection, origin=mean)
        return head

    def head(self, dim: int, bits: int) -> UnitHead:
        """An empty head: logits = (x / |x| - mean) W R as one affine map."""
        return UnitHead(dim, bits)
