"""Gathers the embeddings of a batch from several processes ("ranks"), with their gradients. Knows no network.

Every rank computes the whole loss of all embeddings. So the sorted list, the negatives and the head's batch
normalisation span the global batch for any objective, and no objective knows ranks. Each rank repeats the heads' work,
which is small beside the backbone's.
"""

from typing import Any

import torch
from torch import Tensor, distributed


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, own: Tensor) -> Tensor:
        context.share = len(own)
        return _gather_plain(own)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        """The sum of all ranks' gradients: their losses are equal, so it is this rank's times the number of ranks.

        DistributedDataParallel averages gradients over the ranks. The average is then the gradient of the one loss, for
        the backbone, of which each rank has a part, and for the heads, which every rank has whole.
        """
        start = distributed.get_rank() * context.share
        return gradients[0][start : start + context.share] * distributed.get_world_size()


def gather(own: Tensor) -> Tensor:
    """Concatenate the tensors of all ranks, [n, ...] each, in the order of the ranks: [ranks * n, ...].

    The result can be differentiated if every rank computes the same loss from it.
    """
    if not distributed.is_initialized():
        return own
    gathered: Tensor = _Gather.apply(own) if own.requires_grad else _gather_plain(own)
    return gathered


def agree(wish: bool, *, device: torch.device) -> bool:
    """Whether `wish` is true on any rank."""
    if not distributed.is_initialized():
        return wish
    wishes = torch.tensor(int(wish), device=device)
    distributed.all_reduce(wishes, op=distributed.ReduceOp.MAX)
    return bool(wishes.item())


def _gather_plain(own: Tensor) -> Tensor:
    parts = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, own.contiguous())
    return torch.cat(parts)
