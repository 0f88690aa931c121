"""NSH's objective: sort the codes' distances softly, gather latents in that order, contrast by rank.

Yu, Shen, Wang, Zhang, Torr, "Learning to Hash Naturally Sorts", IJCAI 2022. `Loss` holds the reading of the paper;
`nsh.methods.nsh` is the method.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.base import Objective
from nsh.objectives.heads.binary import straight_through
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.sorting.softsort import affinity
from nsh.objectives.sorting.sorted_nce import sorted_nce


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The numbers and functions of L_NSH.

    Attributes:
        m: positives at the head of a sorted list.
        tau_s: SoftSort temperature on the affinity in [0, 1].
        tau_c: contrastive temperature.
        d_z: length of a latent.
        similarity: of gathered latents to the anchor, see `nsh.objectives.sorting.sorted_nce.sorted_cosines`.
        weight: of L_R.
        quantiser: L_R, see `nsh.objectives.heads.binary.quantisation`.
        symmetric: whether each view is the anchor once.
    """

    m: int
    tau_s: float
    tau_c: float
    d_z: int
    similarity: Callable[..., Tensor]
    weight: float
    quantiser: Callable[[Tensor, Tensor], Tensor]
    symmetric: bool


@dataclass(frozen=True)
class EncodedView:
    """The heads' outputs for one view of n images."""

    embedding: Tensor  # X, float [n, dim], from the backbone
    hidden: Tensor  # H, float [n, bits] in [-1, 1]
    code: Tensor  # B, the signs of H, ±1, with H's gradient
    latent: Tensor  # Z, float [n, d_z], rows of unit length


class NshObjective(Objective):
    """L_NSH = L_Sorted + weight * L_R of two views (paper, section 4.4).

    The ablations (`nsh.objectives.sorting.ablations`) are subclasses that replace its parts.
    """

    head: StandardisedHead
    term = "sorted_nce"  # the name of `contrast` in the record

    def __init__(self, head: StandardisedHead, loss: Loss) -> None:
        super().__init__()
        self.head = head
        self.latent = nn.Linear(head.linear.in_features, loss.d_z)
        self.loss = loss

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Loss, sorted_nce and quantisation of two views, embeddings float32 [n, dim] each."""
        one, other = self.apply_heads(first, second)
        contrast = self.contrast(one, other)
        if self.loss.symmetric:
            contrast = (contrast + self.contrast(other, one)) / 2
        distance = self.loss.quantiser(one.hidden, other.hidden)
        return {"loss": contrast + self.loss.weight * distance, self.term: contrast, "quantisation": distance}

    def apply_heads(self, *embeddings: Tensor) -> list[EncodedView]:
        """Apply both heads to all views in one pass."""
        inputs = self.head.hide(self.head.standardise(torch.cat(embeddings)))
        hidden = self.head.finish(inputs).tanh()
        code = straight_through(hidden)
        parts = [part.chunk(len(embeddings)) for part in (hidden, code, self.represent(inputs, code))]
        return [EncodedView(*view) for view in zip(embeddings, *parts, strict=True)]

    def represent(self, inputs: Tensor, code: Tensor) -> Tensor:
        """Z: the latents that are gathered and compared with the anchor, rows of unit length."""
        return functional.normalize(self.latent(inputs), dim=1)

    def contrast(self, one: EncodedView, other: EncodedView) -> Tensor:
        """L_Sorted, a scalar (Eq. 6)."""
        return sorted_nce(self.compare(one, other), m=self.loss.m, tau_c=self.loss.tau_c)

    def compare(self, one: EncodedView, other: EncodedView) -> Tensor:
        """Similarity of the latents of `one`, in their soft order for each query, to the anchor in `other`.

        Returns:
            float [n, n(rank)] (Eqs. 3 to 5).
        """
        scores = affinity(one.code, other.code)
        return self.loss.similarity(scores, one.latent, other.latent, tau_s=self.loss.tau_s)
