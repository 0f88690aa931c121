"""SortedNCE on lists longer than a batch: the batch, then a queue of codes and latents of former steps.

Yu et al., "Learning to Hash Naturally Sorts", IJCAI 2022, Eqs. 4 to 6, with a queue as in He et al., "Momentum
Contrast for Unsupervised Visual Representation Learning", CVPR 2020, section 3.2 (without its second network). Knows
scores, codes and latents, no network.

Codes of d_b bits have at most d_b + 1 distances (levels), so a list of thousands has few different ranks. Eq. 6 needs
only the cosine at each level and the number of ranks there. So the cost grows with the length of the list, and not with
its square as in `nsh.objectives.sorting.sorted_nce`, which gives the same values in exact arithmetic.
"""

import torch
from torch import Tensor
from torch.nn import functional

from nsh.objectives.noise import Counter
from nsh.objectives.sorting.softsort import choose, distinct
from nsh.objectives.sorting.sorted_nce import SMALLEST_LENGTH


class Queue(Counter):
    """The last codes and latents, without gradient; they are buffers, so that checkpoints hold them."""

    codes: Tensor
    latents: Tensor

    def __init__(self, length: int, *, bits: int, d_z: int) -> None:
        super().__init__()
        self.register_buffer("codes", torch.zeros(length, bits))
        self.register_buffer("latents", torch.zeros(length, d_z))

    def after(self, codes: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:
        """The given codes and latents, float [n, bits] and [n, d_z], followed by those in the queue.

        If the given codes are the first bits of codes, so are those that follow.
        """
        filled, bits = min(self.count, len(self.codes)), codes.shape[1]
        return torch.cat([codes, self.codes[:filled, :bits]]), torch.cat([latents, self.latents[:filled]])

    @torch.no_grad()
    def put(self, codes: Tensor, latents: Tensor) -> None:
        """Replace the oldest entries by float [n, bits] and [n, d_z]; if too many, by the last of them."""
        length = len(self.codes)
        places = (self.count + torch.arange(len(codes), device=codes.device))[-length:] % length
        self.codes[places] = codes[-length:]
        self.latents[places] = latents[-length:]
        self.count += len(codes)


def level_cosines(
    scores: Tensor, items: Tensor, anchors: Tensor, *, tau_s: float, most: int | None = None
) -> tuple[Tensor, Tensor]:
    """Cosine between the gathered latent of every level and the anchor (Eqs. 4 and 5), and the ranks at that level.

    Args:
        scores: float [n, N], row i = affinity of every item to query i.
        items: latents that are gathered, float [N, d_z], rows of unit length.
        anchors: float [n, d_z], rows of unit length.
        tau_s: SoftSort temperature.
        most: levels that a row may have, see `nsh.objectives.sorting.softsort.distinct`.

    Returns:
        float [n, L] in [-1, 1], most similar level first, and the number of ranks of each level, float [n, L], N in a
        row.
    """
    levels, level_of_rank = distinct(scores, most=most)
    gathered = choose(levels, scores, tau_s) @ items  # [n, L, d_z]
    squared_length = gathered.square().sum(dim=2).clamp_min(SMALLEST_LENGTH**2)
    cosines = (gathered @ anchors.unsqueeze(2)).squeeze(2) * squared_length.rsqrt()
    ranks = torch.zeros_like(levels).scatter_add(1, level_of_rank, torch.ones_like(scores))
    return cosines, ranks


def level_nce(cosines: Tensor, ranks: Tensor, *, m: int, tau_c: float) -> Tensor:
    """Eq. 6, of the cosine of every level and the number of its ranks: `sorted_nce` of the list written out.

    Args:
        cosines: float [n, L], most similar level first.
        ranks: float [n, L], the number of ranks of every level, the same sum N in every row.
        m: positives at the head of each list, 1 <= m < N.
        tau_c: contrastive temperature, > 0.

    Returns:
        float scalar >= 0.
    """
    positives = (m - (ranks.cumsum(dim=1) - ranks)).clamp_min(0).minimum(ranks)
    logits = cosines / tau_c
    negatives = (logits + (ranks - positives).log()).logsumexp(dim=1, keepdim=True)
    return (functional.softplus(negatives - logits) * positives).sum(dim=1).mean() / m
