"""Neighbours of images, ranked by the number of neighbours they share. Knows features, no loss.

Two images that are near each other by chance share few neighbours; two similar images share many. Candidates are ranked
by the overlap of neighbour lists: Jarvis and Patrick, "Clustering Using a Similarity Measure Based on Shared Near
Neighbors", IEEE Trans. Computers 1973.
"""

import torch
from torch import Tensor
from torch.nn import functional

CANDIDATES = 2  # candidates by cosine for each neighbour that is kept
CHUNK = 500  # images at once: memory grows with n times this


def nearest(features: Tensor, *, count: int) -> Tensor:
    """The `count` most similar other images by cosine, most similar first.

    Args:
        features: float [n, dim].
        count: less than n.

    Returns:
        int64 [n, count].
    """
    unit = functional.normalize(features, dim=1)
    return torch.cat([_nearest(unit, rows, count) for rows in _chunks(len(unit))])


def share_neighbours(features: Tensor, *, count: int) -> Tensor:
    """The `count` other images that share most neighbours with an image, most first.

    An image's neighbours are itself and the `count` most similar images by cosine; there are twice as many candidates.
    Among candidates with equally many shared neighbours, the more similar one comes first.

    Args:
        features: float [n, dim].
        count: less than n.

    Returns:
        int64 [n, count].
    """
    images = len(features)
    candidates = nearest(features, count=min(CANDIDATES * count, images - 1))
    neighbours = torch.cat([torch.arange(images)[:, None], candidates[:, :count]], dim=1)
    return torch.cat([_share(neighbours, candidates, rows, count) for rows in _chunks(images)])


def _chunks(images: int) -> list[Tensor]:
    return [torch.arange(start, min(start + CHUNK, images)) for start in range(0, images, CHUNK)]


def _nearest(unit: Tensor, rows: Tensor, count: int) -> Tensor:
    cosines = unit[rows] @ unit.T
    cosines[torch.arange(len(rows)), rows] = -torch.inf
    return cosines.topk(count, dim=1).indices


def _share(neighbours: Tensor, candidates: Tensor, rows: Tensor, count: int) -> Tensor:
    near = torch.zeros(len(rows), len(neighbours), dtype=torch.bool).scatter(1, neighbours[rows], True)
    asked = candidates[rows]
    shared = near.gather(1, neighbours[asked].flatten(1)).view(*asked.shape, -1).sum(dim=2)
    order = shared.argsort(dim=1, descending=True, stable=True)[:, :count]
    return asked.gather(1, order)
