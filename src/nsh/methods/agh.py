"""AGH: the smoothest functions on an anchor graph, cut at 0, and with two layers also on both sides of 0.

Liu, Wang, Kumar, Chang, "Hashing with Graphs", ICML 2011. One layer: a bit is the sign of an eigenvector of the anchor
graph, and z(x)^T W extends it to new images. Two layers (section 5): half as many eigenvectors y, and for each a second
bit that divides the positive side at b+ and the negative side at b-. With L = I - A, the cuts make f = (y - b+ where y
> 0, b- - y elsewhere) as smooth as possible, min f^T L f, at 1^T f = 0. In closed form (derived here, equal to the
authors' program): b+ + b- = 1+^T L |y| / 1+^T L 1+ and n+ b+ - n- b- = 2 sum of y+, where 1+ marks y > 0.

Differences: images are normalised to unit length first, as for ITQ. The constant eigenvector is removed in closed form;
the authors' program drops all eigenvalues above 0.999 instead, and with them those that separate the components of a
graph. If the positive side is such a component, every pair of cuts is equally smooth (0 / 0), and the means of the two
sides are taken. For an odd length the last second bit is left out.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nsh.objectives.base import HashHead, Loop, Report, TrainingData
from nsh.objectives.graphs.anchors import AnchorGraph, AnchorHead, build_graph, eigenfunctions
from nsh.objectives.heads.linear import unit_features
from nsh.ranges import Count

LEAST_CUT = 1e-9  # of edges between the two sides, as a share of all; less is rounding


class TwoLayerHead(AnchorHead):
    """Bits of both layers: the signs of Y = z(x)^T W, then the side of each function's cut."""

    above: Tensor
    below: Tensor

    def __init__(self, dim: int, bits: int, *, anchors: int, nearest: int) -> None:
        super().__init__(dim, bits, anchors=anchors, nearest=nearest, functions=(bits + 1) // 2)
        self.register_buffer("above", torch.zeros(bits // 2))
        self.register_buffer("below", torch.zeros(bits // 2))

    @torch.no_grad()
    def set_cuts(self, above: Tensor, below: Tensor) -> None:
        """Set b+ and b-, float64 [bits // 2] each."""
        self.above.copy_(above)
        self.below.copy_(below)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Logits float32 [n, bits] of embeddings float32 [n, dim]: the first layer's, then the second's."""
        first = super().forward(embeddings)
        parted = first[:, : self.bits // 2]
        second = torch.where(parted > 0, parted - self.above, self.below - parted)
        return torch.cat([first, second], dim=1)


@dataclass(frozen=True, kw_only=True)
class Agh:
    """Liu et al., "Hashing with Graphs", ICML 2011."""

    layers: Literal[1, 2] = 2  # 1: a bit an eigenvector | 2: two bits each, of half as many
    anchors: Count = 300  # centres of k-means, more than bits; the authors' number
    nearest: Count = 3  # anchors that describe an image; the authors: 2 to a tenth of the anchors

    name = "agh"

    def __post_init__(self) -> None:
        if self.nearest > self.anchors:
            raise ValueError(f"nearest = {self.nearest} of {self.anchors} anchors: choose nearest <= anchors")

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Draw the anchors from `seed`, build the graph, find its smoothest functions; needs no loop.

        `report` gets one {"epoch": 1, "loss": mean of 1 - eigenvalue}: the roughness tr(Y^T L Y) / n of a function.

        Raises:
            TrainingError: fewer different images than anchors, fewer anchors than neighbours, or too many bits.
        """
        graph = build_graph(unit_features(data), anchors=self.anchors, nearest=self.nearest, seed=seed)
        head = self.head(data.dim, bits)
        projection, eigenvalues = eigenfunctions(graph, count=head.projection.shape[1])
        report({"epoch": 1, "loss": float((1 - eigenvalues).mean())})
        head.set_graph(graph, projection)
        if isinstance(head, TwoLayerHead):
            head.set_cuts(*find_cuts(graph, graph.weights @ projection[:, : bits // 2]))
        return head

    def head(self, dim: int, bits: int) -> AnchorHead:
        """An empty head."""
        if self.layers == 2:
            return TwoLayerHead(dim, bits, anchors=self.anchors, nearest=self.nearest)
        return AnchorHead(dim, bits, anchors=self.anchors, nearest=self.nearest, functions=bits)


def find_cuts(graph: AnchorGraph, functions: Tensor) -> tuple[Tensor, Tensor]:
    """b+ and b-, float64 [k] each, of functions Y float64 [n, k] with Y^T 1 = 0."""
    positive = (functions > 0).to(functions.dtype)
    size = positive.sum(dim=0)
    rest = len(functions) - size
    sums = (functions * positive).sum(dim=0)
    rough = positive - graph.spread(positive)  # L 1+
    cut = (positive * rough).sum(dim=0)
    parted = cut > LEAST_CUT * len(functions)
    both = (functions.abs() * rough).sum(dim=0) / cut.where(parted, torch.ones_like(cut))
    above = (rest * both + 2 * sums) / len(functions)
    below = (size * both - 2 * sums) / len(functions)
    return above.where(parted, sums / size), below.where(parted, -sums / rest)
