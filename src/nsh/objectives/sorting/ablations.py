"""NSH with one part taken out or replaced: the baselines of the paper's table 3.

Yu et al., "Learning to Hash Naturally Sorts", IJCAI 2022, section 5.3. Each class says in its docstring what is missing
and replaces no more than that; everything else, L_R too, is `nsh.objectives.sorting.objective`. The Roman numbers are
the paper's. Where its text is open we say how it is read; the figures it printed are of a fine-tuned backbone, so that
their order can be compared and not their size.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.contrast import ntxent
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.sorting.objective import Loss, NshObjective, View
from nsh.objectives.sorting.softsort import affinity, choose

DECODER_HIDDEN = 1024  # as in TBH, whose decoder the paper compares its own with


class HardSort(NshObjective):
    """(i) Eqs. 4 and 5 by argsort: the latents change places and are not mixed; ties stay in the batch's order.

    A place in a list has no derivative: of the loss, only L_R reaches the hash head.
    """

    def compare(self, one: View, other: View) -> Tensor:
        """Cosines float [n, n(rank)] of the latents of `one`, in their hard order, with the anchor in `other`."""
        order = affinity(one.code, other.code).argsort(dim=1, descending=True, stable=True)
        return (other.latent @ one.latent.T).gather(1, order)


class NoQuantisation(NshObjective):
    """(ii) L_Sorted alone; L_R is still recorded."""

    def __init__(self, head: StandardisedHead, loss: Loss) -> None:
        super().__init__(head, replace(loss, weight=0.0))


class Decoding(NshObjective):
    """(iii) No contrast: a decoder makes the image again out of e_i[1, :], the most similar latents in their soft mix.

    The paper names neither the decoder nor what it decodes. Here it is TBH's, one hidden layer (ReLU), and its target
    is the embedding, standardised, of the view that is the anchor in NSH; the loss is the squared error of an image.
    """

    term = "decoding"

    def __init__(self, head: StandardisedHead, loss: Loss) -> None:
        super().__init__(head, loss)
        self.decoder = nn.Sequential(
            nn.Linear(loss.d_z, DECODER_HIDDEN), nn.ReLU(), nn.Linear(DECODER_HIDDEN, head.dim)
        )

    def contrast(self, one: View, other: View) -> Tensor:
        """Squared error of an image, the mean of n, a scalar."""
        error: Tensor = self.decoder(self.gather_first(one, other)) - self.head.standardise(other.embedding)
        return error.square().sum(dim=1).mean()

    def gather_first(self, one: View, other: View) -> Tensor:
        """e_i[1, :] for every query (Eqs. 3 to 5), float [n, d_z]; as in NSH, a tie shares its gradient."""
        scores = affinity(one.code, other.code)
        share = choose(scores.amax(dim=1, keepdim=True), scores, self.loss.tau_s)
        return share.squeeze(1) @ one.latent


class SingleBottleneck(NshObjective):
    """(iv) No z: the codes themselves are sorted, gathered, e_i = P_i B~, and are the anchors."""

    def __init__(self, head: StandardisedHead, loss: Loss) -> None:
        super().__init__(head, loss)
        del self.latent

    def represent(self, inputs: Tensor, code: Tensor) -> Tensor:
        """B, divided by its length, which is the same for all codes and so without a derivative."""
        return code / math.sqrt(code.shape[1])

    def compare(self, one: View, other: View) -> Tensor:
        """Similarities float [n, n(rank)]; the cosine's derivative by the anchor's length is 0, as Eq. 6 has it."""
        anchor = functional.normalize(other.latent, dim=1)
        return self.loss.similarity(affinity(one.code, other.code), one.latent, anchor, tau_s=self.loss.tau_s)


class NoSoftsortLatents(NshObjective):
    """(v) No sort: E~ = S Z~ and E^ = S Z^ are contrasted as SimCLR does, at temperature tau_c.

    The paper writes B where this reads Z; but a linear attention over latents is what is left of NSH without its sort,
    and codes without latents are (iv) already. `NoSoftsortCodes` is the paper to the letter.
    """

    term = "ntxent"

    def contrast(self, one: View, other: View) -> Tensor:
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

    def contrast(self, one: View, other: View) -> Tensor:
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
