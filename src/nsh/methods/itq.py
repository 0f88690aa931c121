"""ITQ: principal directions, rotated until the bits lose least.

Gong, Lazebnik, Gordo, Perronnin, "Iterative Quantization: A Procrustean Approach to Learning Binary Codes for
Large-Scale Image Retrieval", TPAMI 2013. A closed-form rival: it sees clean features only, no views, no gradient.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional

from nsh.methods.base import HashHead, Loop, Report, TrainingData
from nsh.methods.heads import UnitHead
from nsh.methods.rotation import learn_projection


@dataclass(frozen=True, kw_only=True)
class Itq:
    """The method with its parameters."""

    iterations: int

    name = "itq"

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Learn the projection on features of unit length; needs no loop.

        `report` gets {"epoch": iteration, "loss": quantisation error} once an iteration.

        Raises:
            TrainingError: more bits than features.
        """
        features = functional.normalize(torch.from_numpy(data.features).double(), dim=1)
        mean = features.mean(dim=0)
        projection = learn_projection(features - mean, bits=bits, iterations=self.iterations, seed=seed, report=report)
        head = self.head(data.dim, bits)
        with torch.no_grad():
            head.linear.weight.copy_(projection.T)
            head.linear.bias.copy_(-mean @ projection)
        return head

    def head(self, dim: int, bits: int) -> UnitHead:
        """An empty head: logits = (x / |x| - mean) W R as one affine map."""
        return UnitHead(dim, bits)
