"""Adaptive average pooling with a gradient that is deterministic on CUDA.

In deterministic mode torch refuses the gradient of AdaptiveAvgPool2d to more than 1 x 1, which VGG and AlexNet need.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def fix_pooling(network: nn.Module) -> None:
    """Replace a network's adaptive poolings in place; outputs stay the same, and they have no weights."""
    for name, layer in list(network.named_modules()):
        if type(layer) is nn.AdaptiveAvgPool2d and layer.output_size not in (1, (1, 1)):
            network.set_submodule(name, AdaptivePool(layer.output_size))


class AdaptivePool(nn.AdaptiveAvgPool2d):
    """Torch's pooling with a backward pass of two matrix products."""

    def forward(self, images: Tensor) -> Tensor:
        """Images float [n, c, h, w] to means of windows, [n, c, *output_size]."""
        pooled: Tensor = _Pool.apply(images, self.output_size)
        return pooled


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, images: Tensor, size: Any) -> Tensor:
        context.sides = images.shape[2:]
        return functional.adaptive_avg_pool2d(images, size)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        down, across = (
            _weigh(side, size).to(gradient.device) for side, size in zip(context.sides, gradient.shape[2:], strict=True)
        )
        return (down.T @ gradient.float() @ across).to(gradient.dtype), None


def _weigh(side: int, size: int) -> Tensor:
    """The weight of each pixel of a line in each window: float32 [size, side], rows sum to 1."""
    weights = torch.zeros(size, side)
    for window in range(size):
        start, end = window * side // size, -(-(window + 1) * side // size)
        weights[window, start:end] = 1 / (end - start)
    return weights
