"""SH: sines along the principal directions, the smoothest first.

Weiss, Torralba, Fergus, "Spectral Hashing", NIPS 2008. The best balanced, uncorrelated code of a similarity graph is a
graph partition; relaxed, its bits are eigenvectors of the graph's Laplacian. If images are uniform in a box
[a_1, b_1] x [a_2, b_2] x ..., the limit of these eigenvectors are the products of
Phi_k(x) = sin(pi / 2 + k pi (x - a) / (b - a)) along single directions, with eigenvalues
1 - exp(-(epsilon k pi / (b - a))^2 / 2), monotone in the frequency k pi / (b - a), so the order does not depend on
epsilon. The paper, section 3: principal directions; a and b are the least and the largest projection; the functions of
lowest frequency along one direction each (the sign of a product is the product of the signs: no new bit), cut at 0.

As in the authors' program, min(bits, dim) principal directions are used, and the argument is x - a (the paper's formula
leaves the origin out).

Differences: images are normalised to unit length first, as for ITQ. As published, the sine continues outside the box.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nsh.errors import TrainingError
from nsh.objectives.base import HashHead, Loop, Report, TrainingData
from nsh.objectives.closed_forms.rotation import principal_directions
from nsh.objectives.heads.linear import UnitHead, unit_features

LEAST_RANGE = 1e-6  # of images of unit length along a direction; less is rounding


class SineHead(UnitHead):
    """logits = cos(W x / |x| + c), which is sin(pi / 2 + ...): rows of W are directions times frequencies, c phases."""

    def forward(self, embeddings: Tensor) -> Tensor:
        """Logits float32 [n, bits] in [-1, 1] of embeddings float32 [n, dim]."""
        return super().forward(embeddings).cos()


@dataclass(frozen=True, kw_only=True)
class Sh:
    """Weiss et al., "Spectral Hashing", NIPS 2008."""

    name = "sh"

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Choose the functions; needs neither loop nor seed.

        `report` gets one {"epoch": 1, "loss": mean frequency of the bits, in half waves over a unit of length}.

        Raises:
            TrainingError: all training images have the same embedding.
        """
        features = unit_features(data)
        directions = principal_directions(features - features.mean(dim=0), count=min(bits, data.dim))
        projected = features @ directions
        lowest, highest = projected.amin(dim=0), projected.amax(dim=0)
        frequency, along = lowest_frequencies(highest - lowest, count=bits)
        report({"epoch": 1, "loss": float(frequency.mean() / math.pi)})
        head = self.head(data.dim, bits)
        with torch.no_grad():
            head.linear.weight.copy_((directions[:, along] * frequency).T)
            head.linear.bias.copy_(-frequency * lowest[along])
        return head

    def head(self, dim: int, bits: int) -> SineHead:
        """An empty head."""
        return SineHead(dim, bits)


def lowest_frequencies(ranges: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """The `count` lowest of k pi / (b - a), over all directions and k = 1, 2, ...

    Args:
        ranges: b - a of each direction, float64 [directions].
        count: how many; k > count cannot be among them, as one direction alone has `count` lower ones.

    Returns:
        frequencies float64 [count], rising, and each one's direction, int64 [count]; equal ones by (direction, k).

    Raises:
        TrainingError: no direction has a range.
    """
    wide = (ranges > LEAST_RANGE).nonzero().squeeze(1)
    if not len(wide):
        raise TrainingError("all training images have the same embedding: look at the images or the backbone's weights")
    modes = torch.arange(1, count + 1, dtype=torch.float64)
    frequencies = (modes * math.pi / ranges[wide, None]).flatten()
    order = frequencies.argsort(stable=True)[:count]
    return frequencies[order], wide[order // count]
