"""NT-Xent, the contrastive loss of SimCLR. Knows vectors, not their meaning.

Chen, Kornblith, Norouzi, Hinton, "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020,
Eq. 1.
"""

import torch
from torch import Tensor
from torch.nn import functional


def ntxent(first: Tensor, second: Tensor, *, temperature: float) -> Tensor:
    """Mean over all 2n vectors of -log(e^(cos to its pair / t) / sum over the 2n - 1 others of e^(cos / t)).

    Args:
        first: vectors of one view of n images, float [n, d].
        second: vectors of the other view of the same images, in the same order.
        temperature: t.

    Returns:
        float scalar.
    """
    unit = functional.normalize(torch.cat([first, second]), dim=1)
    count = len(first)
    itself = torch.eye(2 * count, dtype=torch.bool, device=unit.device)
    logits = (unit @ unit.T / temperature).masked_fill(itself, -torch.inf)
    pair = torch.arange(2 * count, device=unit.device).roll(count)
    return functional.cross_entropy(logits, pair)
