"""The blocks of a network in the order of its forward pass, and a network cut before one of them. Trains nothing.

Known are networks whose forward pass is a chain of modules: torchvision's MobileNet, EfficientNet and ResNet, timm's
EfficientNet (which includes EfficientNet-Lite) and ResNet, with their variants.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nsh.backbones.networks import Backbone
from nsh.errors import ConfigError

Blocks = dict[str, nn.Module]
"""Modules by name; the network is one after the other."""

_KNOWN = "torchvision's MobileNet, EfficientNet and ResNet, timm's EfficientNet (with -Lite) and ResNet"


@dataclass(frozen=True, kw_only=True)
class CutBackbone:
    """A backbone in two parts that share its modules; `upper` of `lower` is the backbone.

    Attributes:
        lower: frozen; images float32 [n, 3, S, S] to the block's inputs ("inner activations"), float32 [n, C h w].
        upper: inner activations, float32 [n, C h w], to embeddings, float32 [n, d].
        shape: C, h and w of the block's input.
    """

    lower: Backbone
    upper: nn.Sequential
    shape: tuple[int, int, int]


def cut(backbone: Backbone, block: str) -> CutBackbone:
    """Cut a backbone before `block`.

    Raises:
        ConfigError: there is no such block, or nothing is known of this network's blocks.
    """
    blocks = _find_blocks(backbone, block)
    allowed = [name for name, module in list(blocks.items())[1:] if any(True for _ in module.parameters())]
    if block not in allowed:
        raise ConfigError(
            f"train.finetune.from: found {block}, allowed for {backbone.name} are {', '.join(allowed)}, or null: "
            "all layers learn"
        )
    place, modules = list(blocks).index(block), list(blocks.values())
    size = backbone.image_size
    with torch.inference_mode():
        _, *shape = nn.Sequential(*modules[:place])(torch.zeros(1, 3, size, size)).shape
    channels, height, width = shape
    lower = nn.Sequential(*modules[:place], nn.Flatten())
    return CutBackbone(
        lower=Backbone(lower, name=backbone.name, dim=math.prod(shape), image_size=size),
        upper=nn.Sequential(nn.Unflatten(1, (channels, height, width)), *modules[place:]),
        shape=(channels, height, width),
    )


def _find_blocks(backbone: Backbone, block: str) -> Blocks:
    kind = type(backbone.network)
    order = _ORDERS.get((kind.__module__.partition(".")[0], kind.__name__))
    if order is None:
        raise ConfigError(
            f"train.finetune.from: found {block}, allowed for {backbone.name} is null, all layers learn: the order of "
            f"blocks is known of {_KNOWN} alone; choose one of these as backbone.name, or null"
        )
    return order(backbone.network)


def _order_features(network: Any) -> Blocks:
    """Features, the mean over all places, classifier."""
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), network.classifier)
    return {**_number("features", network.features), "classifier": head}


def _order_layers(network: Any) -> Blocks:
    """A stem, layers, a pooling and the last layer; timm's pooling has flattened already."""
    layers = {name: module for name, module in network.named_children() if name.startswith("layer")}
    *stem, pooling, last = (module for name, module in network.named_children() if name not in layers)
    return {"conv1": nn.Sequential(*stem), **layers, "fc": nn.Sequential(pooling, nn.Flatten(), last)}


def _order_stages(network: Any) -> Blocks:
    """A stem, stages of blocks, a last convolution with the pooling."""
    stem = nn.Sequential(network.conv_stem, network.bn1)
    head = nn.Sequential(network.conv_head, network.bn2, network.global_pool, network.classifier)
    return {"conv_stem": stem, **_number("blocks", network.blocks), "conv_head": head}


def _number(name: str, modules: nn.Sequential) -> Blocks:
    return {f"{name}.{place}": module for place, module in enumerate(modules)}


_ORDERS: dict[tuple[str, str], Callable[[Any], Blocks]] = {
    ("torchvision", "MobileNetV2"): _order_features,
    ("torchvision", "MobileNetV3"): _order_features,
    ("torchvision", "EfficientNet"): _order_features,
    ("torchvision", "ResNet"): _order_layers,
    ("timm", "ResNet"): _order_layers,
    ("timm", "EfficientNet"): _order_stages,
}
"""By library and class; a subclass may have another forward pass."""
