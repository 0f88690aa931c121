"""NSH with one part taken out or replaced: the baselines of the paper's table 3.

Yu et al., "Learning to Hash Naturally Sorts", IJCAI 2022, section 5.3. The docstring of each class says what it
replaces; everything else, including L_R, is from `nsh.objectives.sorting.objective`. The Roman numbers are the paper's.
Docstrings state how open points are read. The paper's figures are from a fine-tuned backbone: compare their order, not
their size.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.contrast import ntxent
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.sorting.objective import EncodedView, Loss, NshObjective
from nsh.objectives.sorting.softsort import affinity, choose

DECODER_HIDDEN = 1024  # as in TBH, whose decoder the paper compares its own with


class HardSort(NshObjective):
    """(i) Eqs. 4 and 5 by argsort: latents are reordered and not mixed; ties stay in the batch's order.

    The order has no derivative, so only L_R trains the hash head.
    """

    def compare(self, one: EncodedView, other: EncodedView) -> Tensor:
        """Cosines float [n, n(rank)] of the latents of `one`, in their hard order, with the anchor in `other`."""
        order = affinity(one.code, other.code).argsort(dim=1, descending=True, stable=True)
        return (other.latent @ one.latent.T).gather(1, order)


class NoQuantisation(NshObjective):
    """(ii) L_Sorted alone; L_R is still recorded."""

    def __init__(self, head: StandardisedHead, loss: Loss) -> None:
        super().__init__(head, replace(loss, weight=0.0))


class Decoding(NshObjective):
    """(iii) No contrast: a decoder reconstructs the image from e_i[1, :], the soft mix of the most similar latents.

    The paper describes neither the decoder nor its target. Here the decoder is TBH's, one hidden layer (ReLU); its
    target is the standardised embedding of the view that is the anchor in NSH; the loss is the squared error of an
    image.
    """

    term = "decoding"

    def __init__(self, head: StandardisedHead, loss: Loss) -> None:
        super().__init__(head, loss)
        self.decoder = nn.Sequential(
            nn.Linear(loss.d_z, DECODER_HIDDEN), nn.ReLU(), nn.Linear(DECODER_HIDDEN, head.dim)
        )

    def contrast(self, one: EncodedView, other: EncodedView) -> Tensor:
        """Squared error of an image, the mean of n, a scalar."""
        error: Tensor = self.decoder(self.gather_first(one, other)) - self.head.standardise(other.embedding)
        return error.square().sum(dim=1).mean()

    def gather_first(self, one: EncodedView, other: EncodedView) -> Tensor:
        """e_i[1, :] for every query (Eqs. 3 to 5), float [n, d_z]; as in NSH, a tie shares its gradient."""
        scores = affinity(one.code, other.code)
        share = choose(scores.amax(dim=1, keepdim=True), scores, self.loss.tau_s)
        return share.squeeze(1) @ one.latent


class SingleBottleneck(NshObjective):
    """(iv) No z: the codes themselves are sorted and gathered, e_i = P_i B~, and are the anchors."""

    def __init__(self, head: StandardisedHead, loss: Loss) -> None:
        super().__init__(head, loss)
        del self.latent

    def represent(self, inputs: Tensor, code: Tensor) -> Tensor:
        """B, divided by its length, which is equal for all codes and has no derivative."""
        return code / math.sqrt(code.shape[1])

    def compare(self, one: EncodedView, other: EncodedView) -> Tensor:
        """Similarities float [n, n(rank)]; as in Eq. 6, the cosine's derivative by the anchor's length is 0."""
        anchor = functional.normalize(other.latent, dim=1)
        return self.loss.similarity(affinity(one.code, other.code), one.latent, anchor, tau_s=self.loss.tau_s)


class NoSoftsortLatents(NshObjective):
    """(v) No sort: E~ = S Z~ and E^ = S Z^ are contrasted as SimCLR does, at temperature tau_c.

    The paper writes B instead of Z. But NSH without its sort is a linear attention over latents, and codes without
    latents are (iv) already. `NoSoftsortCodes` is the literal reading.
    """

    term = "ntxent"

    def contrast(self, one: EncodedView, other: EncodedView) -> Tensor:
        """NT-Xent of the mixed latents, a scalar."""
        scores = affinity(one.code, other.code)
        return ntxent(scores @ one.latent, scores @ other.latent, temperature=self.loss.tau_c)


class NoSoftsortCodes(NoSoftsortLatents, SingleBottleneck):
    """(v) as printed: E~ = S B~ and E^ = S B^, so that z is in no loss and is left out."""


class MultiLabelNce(NshObjective):
    """(vi) One cross entropy of m labels instead of m of one: every positive competes with the other positives too.

    The form is SupCon's with the sum outside of the logarithm (Khosla et al., "Supervised Contrastive Learning",
    NeurIPS 2020, Eq. 2).
    """

    term = "multi_label_nce"

    def contrast(self, one: EncodedView, other: EncodedView) -> Tensor:
        """-1/(m n) sum_i sum_j<=m log(e^(c_ij / tau_c) / sum over all n ranks of e^(c_ik / tau_c)), a scalar."""
        logits = self.compare(one, other) / self.loss.tau_c
        return (torch.logsumexp(logits, dim=1, keepdim=True) - logits[:, : self.loss.m]).mean()


ABLATIONS: dict[str, type[NshObjective]] = {
    "hard_sort": HardSort,
    "no_quantisation": NoQuantisation,
    "decoding": Decoding,
    "single_bottleneck": SingleBottleneck,
    "no_softsort_codes": NoSoftsortCodes,
    "no_softsort_latents": NoSoftsortLatents,
    "multi_label_nce": MultiLabelNce,
}
"""By the name in params.yaml."""
