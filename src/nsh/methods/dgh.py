"""DGH: codes of the training images that agree along an anchor graph, optimised without relaxation to real numbers.

Liu, Mu, Kumar, Chang, "Discrete Graph Hashing", NIPS 2014. Of all codes B in {-1, 1}^[n, bits] on an anchor graph A,

    maximise tr(B^T A B) + rho tr(B^T Y)   where Y^T Y = n I and Y^T 1 = 0   (Eq. 4),

so that similar images get similar bits, and the bits are nearly balanced and uncorrelated, like Y. With rho near 0 this
does not hold, and a constant is the best code. Two steps alternate. For given Y, B <- sgn(2 A B + rho Y) until no entry
changes; an entry with gradient 0 stays. For given B, the best Y has a closed form (section 3). A new image gets the
bits that its neighbours in the graph vote for: sgn(W^T z(x)) with W = Lambda^-1 Z^T B. The start is DGH-R, the better
of the paper's two: the smoothest functions H and their eigenvalues Theta, rotated by the R that maximises tr(R^T Theta
H^T B). That is ITQ's problem (`nsh.objectives.closed_forms.rotation`) on H Theta.

Differences: images are normalised to unit length first, as for ITQ. The paper stops when the objective hardly rises;
here the iteration ends when no code changes. It always ends: A is positive semi-definite, so the objective rises with
every change. All images, including the training images, are encoded like new ones.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from nsh.objectives.base import HashHead, Loop, Report, TrainingData
from nsh.objectives.closed_forms.rotation import minimise_quantisation
from nsh.objectives.graphs.anchors import AnchorGraph, AnchorHead, build_graph, eigenfunctions
from nsh.objectives.heads.binary import sign
from nsh.objectives.heads.linear import unit_features
from nsh.ranges import Count, Weight

ROTATIONS = 100  # of the start
LEAST_GRADIENT = 1e-9  # entries of 2 A B are in [-2, 2]; less is rounding, and could flip a bit again and again
LEAST_SINGULAR = 1e-9  # of centred codes, as a share of sqrt(n); less is rounding


@dataclass(frozen=True, kw_only=True)
class Dgh:
    """Liu et al., "Discrete Graph Hashing", NIPS 2014."""

    anchors: Count = 300  # and nearest: as for agh
    nearest: Count = 3
    rho: Weight = 2.0  # weight of balanced, uncorrelated bits beside the graph; the authors: 0.1 to 5

    name = "dgh"

    def __post_init__(self) -> None:
        if self.nearest > self.anchors:
            raise ValueError(f"nearest = {self.nearest} of {self.anchors} anchors: choose nearest <= anchors")

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Draw the anchors from `seed`, build the graph, find the codes; needs no loop.

        `report` gets {"epoch": round, "loss": see `find_codes`} once a round of both steps.

        Raises:
            TrainingError: fewer different images than anchors, fewer anchors than neighbours, or too many bits.
        """
        graph = build_graph(unit_features(data), anchors=self.anchors, nearest=self.nearest, seed=seed)
        code, target = start(graph, bits=bits)
        code = find_codes(graph, code, target, rho=self.rho, seed=seed, report=report)
        head = self.head(data.dim, bits)
        head.set_graph(graph, graph.average(code))
        return head

    def head(self, dim: int, bits: int) -> AnchorHead:
        """An empty head: a logit is the mean bit of the neighbours in the graph, in [-1, 1]."""
        return AnchorHead(dim, bits, anchors=self.anchors, nearest=self.nearest, functions=bits)


def start(graph: AnchorGraph, *, bits: int) -> tuple[Tensor, Tensor]:
    """B and Y of DGH-R (section 3.3), float64 [n, bits] each.

    Raises:
        TrainingError: the graph has fewer functions than there are bits.
    """
    projection, eigenvalues = eigenfunctions(graph, count=bits)
    functions = graph.weights @ projection
    smooth = functions * eigenvalues
    unturned = torch.eye(bits, dtype=functions.dtype)
    rotation = minimise_quantisation(smooth, unturned, iterations=ROTATIONS, report=lambda row: None)
    return sign(smooth @ rotation).double(), functions @ rotation


def find_codes(graph: AnchorGraph, code: Tensor, target: Tensor, *, rho: float, seed: int, report: Report) -> Tensor:
    """Alternate both steps, from B and Y, until the codes do not change.

    Args:
        graph: of n images.
        code: B, ±1, float64 [n, bits].
        target: Y, float64 [n, bits] with Y^T Y = n I and Y^T 1 = 0.
        rho: the weight of nearness to Y, >= 0.
        seed: of the directions that complete Y if the bits are not independent.
        report: gets {"epoch": i, "loss": tr(B^T (I - A) B) + rho |B - Y|^2 / 2 (Eq. 3), over n bits}; it never rises.

    Returns:
        B, ±1, float64 [n, bits].
    """
    generator = torch.Generator().manual_seed(seed)
    epoch, stays = 0, False
    while not stays:
        before, code = code, climb(graph, code, rho * target)
        target = nearest_target(code, generator)
        stays = torch.equal(before, code)
        epoch += 1
        smooth, near = (code * graph.spread(code)).mean(), (code * target).mean()
        report({"epoch": epoch, "loss": float(1 - smooth + rho * (1 - near))})
    return code


def climb(graph: AnchorGraph, code: Tensor, pull: Tensor) -> Tensor:
    """The B-step (section 3.1): signed gradient ascent of tr(B^T A B) + tr(B^T pull) from B, until B does not change.

    Args:
        graph: of n images.
        code: B, ±1, float64 [n, bits].
        pull: rho Y, float64 [n, bits].
    """
    while True:
        gradient = 2 * graph.spread(code) + pull
        after = torch.where(gradient.abs() > LEAST_GRADIENT, sign(gradient).double(), code)
        if torch.equal(after, code):
            return code
        code = after


def nearest_target(code: Tensor, generator: torch.Generator) -> Tensor:
    """The Y-step (section 3.2): a Y with Y^T Y = n I and Y^T 1 = 0 that maximises tr(B^T Y).

    With U S V^T the singular value decomposition of the centred codes, Y is sqrt(n) U V^T. If the codes do not have
    full rank, random directions orthogonal to the other columns and to 1 replace the missing columns of U.

    Args:
        code: B, ±1, float64 [n, bits], n > bits.
        generator: of those directions.
    """
    images, bits = code.shape
    left, singular, right = torch.linalg.svd(code - code.mean(dim=0), full_matrices=False)
    rank = int((singular > LEAST_SINGULAR * images**0.5).sum())
    constant = torch.ones(images, 1, dtype=code.dtype)
    noise = torch.randn(images, bits - rank, dtype=code.dtype, generator=generator)
    completion = torch.linalg.qr(torch.cat([constant, left[:, :rank], noise], dim=1)).Q[:, 1 + rank :]
    target: Tensor = images**0.5 * torch.cat([left[:, :rank], completion], dim=1) @ right
    return target
