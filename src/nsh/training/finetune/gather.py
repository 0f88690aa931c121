"""One batch spread over several processes ("ranks"), put together again with its gradients. Knows no network.

Every rank computes the whole loss, of all embeddings: the sorted list, the negatives and the head's batch
normalisation span the global batch for any objective, and none knows of ranks. That costs the heads' work once a rank,
which is nothing beside the backbone's.
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
        """The sum of what all ranks would send: their losses are the same, so it is this rank's, that many times.

        Averaging gradients over the ranks, as DistributedDataParallel does, then gives the gradient of the one loss:
        each rank's part of the backbone's, and the heads', which every rank has whole.
        """
        start = distributed.get_rank() * context.share
        return gradients[0][start : start + context.share] * distributed.get_world_size()


def gather(own: Tensor) -> Tensor:
    """The tensors of all ranks, [n, ...] each, behind one another in the order of the ranks: [ranks * n, ...].

    It may be differentiated where every rank computes the same loss from what is returned.
    """
    if not distributed.is_initialized():
        return own
    gathered: Tensor = _Gather.apply(own) if own.requires_grad else _gather_plain(own)
    return gathered


def agree(wish: bool, *, device: torch.device) -> bool:
    """Whether any rank wishes it."""
    if not distributed.is_initialized():
        return wish
    wishes = torch.tensor(int(wish), device=device)
    distributed.all_reduce(wishes, op=distributed.ReduceOp.MAX)
    return bool(wishes.item())


def _gather_plain(own: Tensor) -> Tensor:
    parts = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, own.contiguous())
    return torch.cat(parts)
