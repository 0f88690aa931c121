"""NSH among neighbours with nested codes: the first 8, 16, 32 ... bits of a code are a code too. Ours, not published.

From `nsh.methods.nsh_plus`: head, pairs of neighbours, NT-Xent on the codes, SortedNCE in the order of their distances.
From Kusupati et al., "Matryoshka Representation Learning", NeurIPS 2022: one loss for every length, of the first
entries of one representation, all of equal weight. So one training gives codes of every length, and one index of the
longest codes can be searched by fewer bits.

New here: both losses are means over all lengths; the lists of a length are sorted by its bits alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nsh.objectives.closed_forms.whitened import WhitenedHead
from nsh.objectives.sorting.among_neighbours import NeighbourMethod, NeighbourObjective
from nsh.ranges import Count, Positive, PositiveShare, Several, Weight


class NestedObjective(NeighbourObjective):
    """NT-Xent + sorting * SortedNCE, each the mean over the lengths of the codes."""

    def compare(self, codes: Sequence[Tensor], latents: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The means over all lengths of both losses, by the first bits of the codes, float32 [n, bits] each."""
        compare = super().compare
        lengths = (*self.head.nested, self.head.bits)
        found = [compare([code[:, :bits] for code in codes], latents) for bits in lengths]
        contrast, sorted_nce = (torch.stack(terms).mean() for terms in zip(*found, strict=True))
        return contrast, sorted_nce


@dataclass(frozen=True, kw_only=True)
class NshNested(NeighbourMethod):
    """NSH among neighbours with nested codes, ours."""

    epochs: Count = 8
    batch: Several = 128
    learning_rate: Positive = 2e-3
    m: Count = 10  # positives at the head of the sorted list, 1 <= m < batch
    tau_s: Positive = 2.0  # softsort temperature in Hamming steps: 2 / bits on the affinity in [0, 1]
    tau_c: Positive = 0.2  # contrastive temperature of SortedNCE
    d_z: Count = 16  # length of the latent vector: the first of the directions
    queue: Count = 256  # codes and latents of earlier steps, behind the batch in the sorted list
    sorting: Weight = 1.0  # weight of SortedNCE
    temperature: Positive = 0.3  # of NT-Xent on the codes
    neighbours: PositiveShare = 0.0075  # share of the images that are neighbours of one, its positives
    directions: Count = 128  # of the whitened embedding
    hidden: Count = 512  # length of the hidden layer

    name = "nsh_nested"
    minimised = NestedObjective

    def __post_init__(self) -> None:
        if not 1 <= self.m < self.batch:
            raise ValueError(f"m = {self.m} positives in a list of {self.batch}: choose 1 <= m < batch")

    def head(self, dim: int, bits: int) -> WhitenedHead:
        """An empty hash head, whose codes are nested at 8, 16, 32 ... bits."""
        head = super().head(dim, bits)
        head.nested = nested_lengths(bits)
        return head


def nested_lengths(bits: int) -> tuple[int, ...]:
    """The powers of two from 8 that are less than `bits`, ascending."""
    return tuple(2**power for power in range(3, 9) if 2**power < bits)
