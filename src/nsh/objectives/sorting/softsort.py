"""Differentiable sorting: code affinity (Eq. 3) and SoftSort (Eqs. 1 and 4).

Yu et al., "Learning to Hash Naturally Sorts", IJCAI 2022; SoftSort is Prillo and Eisenschlos, ICML 2020. Knows scores,
not their source or the sorted items.

The paper writes softsort(-s) and does not state the direction of the sort; its Remark 1 and Eq. 6 need the most similar
item first. That is softsort(s) with a descending sort, or softsort(-s) with an ascending one: the same matrix.
"""

import torch
from torch import Tensor
from torch.nn import functional


def affinity(first: Tensor, second: Tensor) -> Tensor:
    """S = B~ B^T / 2d_b + 1/2 (Eq. 3): 1 - Hamming / d_b for codes of ±1.

    Args:
        first: codes of the queries, float [n, bits], entries in [-1, 1].
        second: codes of the items, float [n, bits].

    Returns:
        float [n, n] in [0, 1]; row i is query i's. Equal distances give equal numbers, to the last bit.
    """
    return first @ second.T / (2 * first.shape[1]) + 0.5


def permutation(scores: Tensor, tau: float) -> Tensor:
    """SoftSort of every row, most similar first (Eqs. 1 and 4), with the L1 distance.

    Args:
        scores: float [n, n], row i = similarity of every item to query i.
        tau: temperature in units of the scores; towards 0 the sort becomes hard, towards infinity uniform.

    Returns:
        float [n, n(rank), n(item)]: P[i, j, k] = share of item k in rank j of list i; rows sum to 1.
    """
    return choose(scores.sort(dim=1, descending=True).values, scores, tau)


def choose(levels: Tensor, scores: Tensor, tau: float) -> Tensor:
    """Share of every item at every level: softmax over k of -|levels[i, l] - scores[i, k]| / tau.

    Args:
        levels: float [n, L], the scores of the levels.
        scores: float [n, n].
        tau: temperature, > 0.

    Returns:
        float [n, L, n]. If level and score are equal, the distance's subgradient is 0.
    """
    distance = (levels.unsqueeze(2) - scores.unsqueeze(1)).abs()
    return functional.softmax(distance / -tau, dim=2)


def distinct(scores: Tensor, *, most: int | None = None) -> tuple[Tensor, Tensor]:
    """The distinct values (levels) of every row in descending order, and the level of each rank.

    Codes of d_b bits have at most d_b + 1 distances, so a row of n scores has far fewer levels than ranks. Tied ranks
    have the same row in the permutation matrix, so one row for each level is enough. The tied scores of a level share
    its gradient equally. A sort gives it to each rank's own item; this differs only if the loss treats tied ranks
    unequally, where a sort's choice is arbitrary.

    Args:
        scores: float [n, n].
        most: the largest possible number of levels, e.g. d_b + 1 for codes of d_b bits; None: the number of scores.

    Returns:
        levels float [n, L], L = the largest number of levels in a row (shorter rows end in zeros); on a GPU L = `most`,
        because counting would wait for the GPU; and level_of_rank int64 [n, n]: `levels.gather(1, level_of_rank)` are
        the sorted scores.
    """
    ranked = scores.sort(dim=1, descending=True).values
    level_of_rank = functional.pad((ranked[:, 1:] != ranked[:, :-1]).cumsum(dim=1), (1, 0))
    limit = scores.shape[1] if most is None else min(most, scores.shape[1])
    count = limit if scores.device.type == "cuda" else int(level_of_rank[:, -1].max()) + 1
    empty = ranked.new_zeros(len(scores), count)
    ties = empty.scatter_add(1, level_of_rank, torch.ones_like(ranked)).clamp_min(1)
    mean = empty.scatter_add(1, level_of_rank, ranked) / ties
    # The mean of equal numbers may differ in the last bit, which would break a tie.
    value = empty.scatter(1, level_of_rank, ranked.detach())
    return value + (mean - mean.detach()), level_of_rank
