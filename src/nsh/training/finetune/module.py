"""A backbone and an objective as one module that is trained end to end. Knows no method, image or loop."""

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
    """A network, and any objective on its embeddings, trained together."""

    def __init__(self, network: nn.Module, objective: Objective, *, recipe: Recipe, learning_rate: float) -> None:
        """Join the two parts; both are trained in place.

        Args:
            network: views (see `nsh.training.finetune.images.Pair`) to embeddings float [n, d].
            objective: takes the embeddings.
            recipe: how the network is trained.
            learning_rate: the objective's.
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
        """The objective's terms of the global batch, "loss" first, from this rank's part of the batch."""
        rows, first, second = pair
        views = self.embed(torch.cat([first, second])).chunk(2)
        first, second = (gather(view) for view in views)
        with torch.autocast(first.device.type, enabled=False):
            return self.objective.tune(gather(rows), first, second)

    def embed(self, images: Tensor) -> Tensor:
        """Embeddings float32 [n, d] of this rank's images, as in a `Pair`, computed in the recipe's precision."""
        bf16 = self.recipe.precision == "bf16"
        with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=bf16):
            embeddings: Tensor = self.network(images)
        return embeddings.float() if bf16 else embeddings

    def make_optimiser(self) -> torch.optim.Optimizer:
        """Adam, as in the paper, with separate learning rates for network and objective."""
        groups = [
            {"params": list(self.network.parameters()), "lr": self.recipe.learning_rate},
            {"params": list(self.objective.parameters()), "lr": self.learning_rate},
        ]
        return torch.optim.Adam(groups, fused=True)

    def train(self, mode: bool = True) -> Self:
        """Set the training mode of the objective and, if the recipe says so, of the network's batch normalisation.

        Dropout and similar layers stay off, as in the frozen network whose embeddings the objective started from.
        """
        super().train(mode)
        self.network.eval()
        if mode and self.recipe.batch_norm == "trained":
            for layer in self.network.modules():
                if isinstance(layer, _BatchNorm):
                    layer.train()
        return self
