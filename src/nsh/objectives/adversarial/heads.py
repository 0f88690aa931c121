"""The hash head that is a part of the critic, and the base of methods that have one. Knows no loss."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.adversarial.failures import AdversarialMethod
from nsh.objectives.adversarial.game import drop
from nsh.objectives.base import TrainingData
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.noise import Noise

SLOPE = 0.2  # of the rectifier below 0
SHARES = (0.2, 0.5)  # dropped of the input, and between the hidden layers
LEAST_SPREAD = 1e-3  # of a layer's output, which is constant if images are alike


class CriticHead(StandardisedHead):
    """Two hidden layers with leaky rectifiers, which critic and code share, and a linear layer: the logits."""

    def __init__(self, dim: int, bits: int, *, hidden: int) -> None:
        """`hidden` is the length of the first layer; the second has half of it, one at least."""
        self.shared = max(hidden // 2, 1)
        super().__init__(dim, bits, width=self.shared)
        self.first = nn.Linear(dim, hidden)
        self.second = nn.Linear(hidden, self.shared)

    @torch.no_grad()
    def balance_layers(self, features: Tensor) -> None:
        """Scale and shift every layer: on these images, float32 [n, dim], its outputs have mean 0 and variance 1.

        Salimans and Kingma, "Weight Normalization", NIPS 2016, section 3. Without it bits would begin as constants.
        """
        inputs = self.standardise(features)
        for layer in (self.first, self.second, self.linear):
            outputs = layer(inputs)
            scale = outputs.std(dim=0, correction=0).clamp_min(LEAST_SPREAD)
            layer.weight.div_(scale[:, None])
            layer.bias.sub_(outputs.mean(dim=0)).div_(scale)
            inputs = _rectify(layer(inputs))

    def hide(self, inputs: Tensor) -> Tensor:
        """The shared features, float32 [n, hidden / 2], of standardised embeddings, float32 [n, dim]."""
        return _rectify(self.second(_rectify(self.first(inputs))))

    def hide_dropped(self, inputs: Tensor, noise: Noise) -> Tensor:
        """`hide` as it is in training, with dropout."""
        first = _rectify(self.first(drop(inputs, SHARES[0], noise)))
        return _rectify(self.second(drop(first, SHARES[1], noise)))


class SharedCriticMethod(AdversarialMethod):
    """A method whose code is a part of its critic."""

    hidden: int

    def head(self, dim: int, bits: int) -> CriticHead:
        """An empty hash head."""
        return CriticHead(dim, bits, hidden=self.hidden)

    def start(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> None:
        """Balance the layers that were drawn."""
        cast(CriticHead, head).balance_layers(torch.from_numpy(data.features))


def _rectify(values: Tensor) -> Tensor:
    return functional.leaky_relu(values, SLOPE)
