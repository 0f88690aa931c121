"""Anchor graphs: an image has weights on its nearest anchors, and images that share anchors are similar.

Liu, Wang, Kumar, Chang, "Hashing with Graphs", ICML 2011, section 3: Z[i, j] = exp(-|x_i - a_j|^2 / t) over the s
nearest anchors of image i, normalised to sum 1, and 0 elsewhere; the graph is A = Z Lambda^-1 Z^T with
Lambda = diag(Z^T 1), whose rows sum to 1. A [n, n] is never built. Width t = sigma^2 with sigma the mean distance to
the s-th anchor, as in the authors' program. The anchors are centres of k-means. Knows matrices, no method.
"""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from nsh.errors import TrainingError
from nsh.objectives.base import HashHead
from nsh.objectives.roots import square_root

ROUNDS = 20  # of k-means; the anchors need to cover the images, not to be the best centres
CHUNK = 1024  # images whose squares are held at once
LEAST_WIDTH = 1e-6  # for images of unit length; if every image is its own anchor the mean distance is 0
LEAST_EIGENVALUE = 1e-6  # below it an eigenvector of the graph is rounding


class AnchorHead(HashHead):
    """logits = z(x / |x|)^T W: a weighted mean of the rows of W that belong to the nearest anchors."""

    anchors: Tensor
    width: Tensor
    projection: Tensor

    def __init__(self, dim: int, bits: int, *, anchors: int, nearest: int, functions: int) -> None:
        """`functions` is the number of columns of W: `bits`, unless a subclass makes several bits of each."""
        super().__init__(dim, bits)
        self.nearest = nearest
        self.register_buffer("anchors", torch.zeros(anchors, dim))
        self.register_buffer("width", torch.ones(()))
        self.register_buffer("projection", torch.zeros(anchors, functions))

    @torch.no_grad()
    def set_graph(self, graph: "AnchorGraph", projection: Tensor) -> None:
        """Take anchors and width of a graph, and W float64 [m, functions]."""
        self.anchors.copy_(graph.anchors)
        self.width.fill_(graph.width)
        self.projection.copy_(projection)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Z W, float32 [n, functions], of embeddings float32 [n, dim]."""
        closeness, rows = nearest_anchors(functional.normalize(embeddings, dim=1), self.anchors, count=self.nearest)
        weights = (closeness / self.width).softmax(dim=1)
        return (weights.unsqueeze(2) * self.projection[rows]).sum(dim=1)


@dataclass(frozen=True)
class AnchorGraph:
    """The graph of n images on m anchors.

    Attributes:
        anchors: float64 [m, dim].
        width: t, > 0.
        weights: Z, float64 [n, m], rows sum to 1.
        mass: the diagonal of Lambda, float64 [m], sums to n; 0 for an anchor without images.
    """

    anchors: Tensor
    width: float
    weights: Tensor
    mass: Tensor

    def average(self, values: Tensor) -> Tensor:
        """Lambda^-1 Z^T V, float64 [m, k] of V float64 [n, k]: the mean over the images of each anchor."""
        return inverse(self.mass)[:, None] * (self.weights.T @ values)

    def spread(self, values: Tensor) -> Tensor:
        """A V of V float64 [n, k] in O(n m k)."""
        return self.weights @ self.average(values)


def build_graph(features: Tensor, *, anchors: int, nearest: int, seed: int) -> AnchorGraph:
    """The anchor graph of images, float64 [n, dim] of unit length.

    Raises:
        TrainingError: more neighbours than anchors, or more anchors than images that differ.
    """
    if nearest > anchors:
        raise TrainingError(f"found nearest = {nearest} of {anchors} anchors: choose nearest <= anchors")
    centres = find_anchors(features, count=anchors, seed=seed)
    closeness, rows = nearest_anchors(features, centres, count=nearest)
    squared = torch.cat([some.square().sum(dim=1) for some in torch.split(features, CHUNK)])
    farthest = square_root((squared - closeness[:, -1]).clamp_min(0))
    width = max(float(farthest.mean()) ** 2, LEAST_WIDTH)
    weights = torch.zeros(len(features), anchors, dtype=features.dtype)
    weights.scatter_(1, rows, (closeness / width).softmax(dim=1))
    return AnchorGraph(centres, width, weights, weights.sum(dim=0))


def nearest_anchors(features: Tensor, anchors: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    """The `count` nearest anchors of each image, nearest first.

    Args:
        features: float [n, dim].
        anchors: float [m, dim].
        count: at most m.

    Returns:
        |x|^2 - |x - a|^2, float [n, count], whose softmax is that of -|x - a|^2; and rows of anchors, int64 [n, count].
    """
    closeness = features @ (2 * anchors).T - anchors.square().sum(dim=1)
    values, rows = closeness.topk(count, dim=1)
    return values, rows


def find_anchors(features: Tensor, *, count: int, seed: int) -> Tensor:
    """Centres of k-means (Lloyd), from `count` different images drawn by `seed`; an empty cluster keeps its centre.

    Args:
        features: float64 [n, dim].
        count: of centres.
        seed: of the draw.

    Returns:
        float64 [count, dim].

    Raises:
        TrainingError: fewer different images than centres.
    """
    first = _find_different(features)
    if len(first) < count:
        raise TrainingError(
            f"found {len(first)} different training images for {count} anchors: choose anchors <= {len(first)} or "
            "raise split.train"
        )
    order = torch.randperm(len(first), generator=torch.Generator().manual_seed(seed))[:count]
    centres = features[torch.tensor(first)[order]]
    for _ in range(ROUNDS):
        nearest = nearest_anchors(features, centres, count=1)[1].squeeze(1)
        sizes = torch.bincount(nearest, minlength=count).to(features.dtype)[:, None]
        sums = torch.zeros_like(centres).index_add_(0, nearest, features)
        centres = torch.where(sizes > 0, sums / sizes.clamp_min(1), centres)
    return centres


def _find_different(features: Tensor) -> list[int]:
    """Rows of the different images, the first of equal ones; by digests, because sorting would copy all images."""
    first: dict[bytes, int] = {}
    for row, feature in enumerate(features.numpy()):
        first.setdefault(hashlib.sha256(feature + 0.0).digest(), row)  # + 0.0 makes -0 equal to 0
    return list(first.values())


def eigenfunctions(graph: AnchorGraph, *, count: int) -> tuple[Tensor, Tensor]:
    """The smoothest functions on the graph: eigenvectors of A by falling eigenvalue, without the constant one.

    Section 4 of the paper: with M = Lambda^-1/2 Z^T Z Lambda^-1/2 and its eigenpairs V, Sigma, W = sqrt(n) Lambda^-1/2
    V Sigma^-1/2. The constant eigenvector is known in closed form and is removed from M first, so that a graph of
    several components keeps the eigenvectors (also of eigenvalue 1) that separate them. A row of W equals the mean of Y
    over the anchor's images (A Y = Y Sigma) and is computed as such: the formula multiplies V's rounding errors by
    Lambda^-1/2, which is unbounded for an anchor that is a far neighbour of few images.

    Returns:
        W float64 [m, count]: Y = Z W has A Y = Y diag(eigenvalues), Y^T 1 = 0 and Y^T Y = n I;
        and the eigenvalues in (0, 1], float64 [count].

    Raises:
        TrainingError: the graph has fewer eigenvectors.
    """
    images = len(graph.weights)
    root = square_root(inverse(graph.mass))
    constant = square_root(graph.mass / images)
    matrix = root[:, None] * (graph.weights.T @ graph.weights) * root - torch.outer(constant, constant)
    eigenvalues, vectors = torch.linalg.eigh(matrix)
    found = int((eigenvalues > LEAST_EIGENVALUE).sum())
    if found < count:
        raise TrainingError(
            f"found {found} eigenvectors of the graph on {len(root)} anchors, {count} are needed: choose fewer bits, "
            "more anchors, or more training images"
        )
    eigenvalues, vectors = eigenvalues.flip(0)[:count], vectors.flip(1)[:, :count]
    vectors = vectors * vectors.gather(0, vectors.abs().argmax(dim=0, keepdim=True)).sign()
    functions = graph.weights @ (images**0.5 * root[:, None] * vectors * eigenvalues.rsqrt())
    return graph.average(functions) / eigenvalues, eigenvalues


def inverse(mass: Tensor) -> Tensor:
    """1 / mass, and 0 for an anchor without mass."""
    return torch.where(mass > 0, 1 / mass.clamp_min(torch.finfo(mass.dtype).tiny), 0.0)
