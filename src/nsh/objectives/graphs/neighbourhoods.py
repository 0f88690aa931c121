"""Which images are similar: those in the neighbourhoods of images whose neighbourhoods are like one's own.

Song et al., "Binary Generative Adversarial Networks for Image Retrieval", AAAI 2018. Knows features, no loss. Unlike
`nsh.objectives.graphs.neighbours`, all images are candidates, and they bring their own neighbours with them.
"""

import torch
from torch import Tensor
from torch.nn import functional

from nsh.objectives.graphs.neighbours import CHUNK, nearest


def similar_images(features: Tensor, *, near: int, alike: int) -> Tensor:
    """Whether two images are similar.

    With T_i image i and its `near` most similar images by cosine: image i is similar to all images of T_j, for the
    `alike` images j, i among them, with the largest overlap of T_i and T_j; of equal overlaps the lower j counts. If i
    is similar to k, k is similar to i.

    Args:
        features: float [n, dim].
        near: at least 1; at most n - 1 are used.
        alike: at least 1; at most n are used.

    Returns:
        bool [n, n], symmetric, true on the diagonal.
    """
    images = len(features)
    everyone = torch.arange(images)[:, None]
    around = everyone if images == 1 else torch.cat([everyone, nearest(features, count=min(near, images - 1))], dim=1)
    similar = torch.cat([_find(around, rows, min(alike, images)) for rows in torch.split(everyone.squeeze(1), CHUNK)])
    similar |= similar.T.clone()
    return similar.fill_diagonal_(True)


def _find(around: Tensor, rows: Tensor, alike: int) -> Tensor:
    """Of the images in `rows`: bool [len(rows), n]."""
    images = len(around)
    inside = torch.zeros(images, len(rows)).scatter_(0, around[rows].T, 1)
    overlap = functional.embedding_bag(around, inside, mode="sum").T  # of T_i and T_j, [len(rows), n]
    lower_first = overlap.long() * images - torch.arange(images)
    chosen = lower_first.topk(alike, dim=1).indices
    return torch.zeros(len(rows), images, dtype=torch.bool).scatter_(1, around[chosen].flatten(1), True)
