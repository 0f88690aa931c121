"""A backbone and an objective as one module that is trained end to end. It knows no method, no image and no loop."""

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from nsh.objectives.base import Objective
from nsh.training.finetune.gather import gather
from nsh.training.finetune.images import Pair
from nsh.training.finetune.pooling import fix_pooling
from nsh.training.finetune.recipe import Recipe


class FineTuning(nn.Module):
    """Any objective, behind a network that learns with it."""

    def __init__(self, network: nn.Module, objective: Objective, *, recipe: Recipe, learning_rate: float) -> None:
        """Take the parts as they are; both are trained in place.

        Args:
            network: images uint8 [n, S, S, 3] to embeddings float [n, d].
            objective: of the embeddings.
            recipe: how the network is trained.
            learning_rate: of the objective.
        """
        super().__init__()
        self.network = network.requires_grad_(True)
        self.objective = objective
        self.recipe = recipe
        self.learning_rate = learning_rate
        fix_pooling(network)
        if recipe.channels_last:
            network.to(memory_format=torch.channels_last)
        if recipe.compile:
            network.compile()

    def forward(self, pair: Pair) -> dict[str, Tensor]:
        """The objective's terms of the global batch, "loss" first, from this rank's part of it."""
        rows, first, second = pair
        views = self.embed(torch.cat([first, second])).chunk(2)
        first, second = (gather(view) for view in views)
        with torch.autocast(first.device.type, enabled=False):
            return self.objective.tune(gather(rows), first, second)

    def embed(self, images: Tensor) -> Tensor:
        """Embeddings [n, d], in the network's own precision, of this rank's images, uint8 [n, S, S, 3]."""
        bf16 = self.recipe.precision == "bf16"
        with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=bf16):
            embeddings: Tensor = self.network(images)
        return embeddings.float() if bf16 else embeddings

    def make_optimiser(self) -> torch.optim.Optimizer:
        """Adam, as the paper has it, with a rate each for network and objective."""
        groups = [
            {"params": list(self.network.parameters()), "lr": self.recipe.learning_rate},
            {"params": list(self.objective.parameters()), "lr": self.learning_rate},
        ]
        return torch.optim.Adam(groups, fused=True)

    def train(self, mode: bool = True) -> Self:
        """Train: the objective, and of the network at most its batch normalisation.

        Dropout and the like stay off, as in the frozen network, whose embeddings the objective started from.
        """
        super().train(mode)
        self.network.eval()
        if mode and self.recipe.batch_norm == "trained":
            for layer in self.network.modules():
                if isinstance(layer, _BatchNorm):
                    layer.train()
        return self
