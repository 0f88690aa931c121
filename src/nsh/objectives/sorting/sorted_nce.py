"""SortedNCE (Eqs. 5 and 6): contrast on a soft-sorted list, whose ranks decide positives and negatives.

Yu et al., "Learning to Hash Naturally Sorts", IJCAI 2022. Knows scores and latents, no network.

The gathered tensor E = P Z~ [n, n, d_z] of Eq. 5 is never built. Eq. 6 needs only the cosine of its rows with z^_i:

    e_ij . z^_i = sum_k P_ijk (z~_k . z^_i)          |e_ij|^2 = sum_kl P_ijk (z~_k . z~_l) P_ijl

so that two Gram matrices [n, n] replace the latents, and tied ranks, which have equal rows of P, are computed once.
"""

from torch import Tensor
from torch.nn import functional

from nsh.objectives.sorting.softsort import choose, distinct

SMALLEST_LENGTH = 1e-8  # of a gathered latent, because latents may cancel in the soft mean


def sorted_cosines(scores: Tensor, first: Tensor, second: Tensor, *, tau_s: float) -> Tensor:
    """Cosine between every gathered latent e_ij = p_ij Z~ and the anchor z^_i (Eqs. 4 and 5).

    Args:
        scores: float [n, n], row i = affinity of every item to query i.
        first: latents Z~ that are gathered, float [n, d_z], rows of unit length.
        second: latents Z^ of the other view, the anchors, float [n, d_z], rows of unit length.
        tau_s: SoftSort temperature.

    Returns:
        float [n, n(rank)] in [-1, 1], most similar rank first.
    """
    levels, level_of_rank = distinct(scores)
    share = choose(levels, scores, tau_s)  # [n, L, n]
    with_anchor = _with_anchor(share, first, second)
    squared_length = ((share @ (first @ first.T)) * share).sum(dim=2)  # [n, L]
    cosines = with_anchor * squared_length.clamp_min(SMALLEST_LENGTH**2).rsqrt()
    return cosines.gather(1, level_of_rank)


def sorted_products(scores: Tensor, first: Tensor, second: Tensor, *, tau_s: float) -> Tensor:
    """Inner products e_ij . z^_i of the gathered latents without normalisation (Alg. 1).

    Arguments as above; the results are nearer to 0 than cosines.
    """
    levels, level_of_rank = distinct(scores)
    return _with_anchor(choose(levels, scores, tau_s), first, second).gather(1, level_of_rank)


def _with_anchor(share: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return (share @ (second @ first.T).unsqueeze(2)).squeeze(2)  # [n, L]


def sorted_nce(cosines: Tensor, *, m: int, tau_c: float) -> Tensor:
    """Eq. 6: the mean over lists and over the first m ranks of a cross entropy with n - m + 1 logits.

    Each of the m positives is compared with the n - m negatives; its sum leaves out the other positives.

    Args:
        cosines: float [n, n(rank)].
        m: positives at the head of each list, 1 <= m < n.
        tau_c: contrastive temperature, > 0.

    Returns:
        float scalar >= 0; log(n - m + 1) when all cosines are equal.
    """
    logits = cosines / tau_c
    negatives = logits[:, m:].logsumexp(dim=1, keepdim=True)
    # -log(e^p / (e^p + e^negatives)) without computing probabilities
    return functional.softplus(negatives - logits[:, :m]).mean()
