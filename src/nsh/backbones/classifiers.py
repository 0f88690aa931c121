"""Classifiers by name, of torchvision or timm, without their last layer. Does not load weights.

A name that both libraries have means torchvision's network. timm (Wightman, "PyTorch Image Models", Apache-2.0) is
imported only for a name that torchvision does not have.
"""

import difflib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torchvision
from torch import nn

from nsh.errors import ConfigError

MEAN = (0.485, 0.456, 0.406)
"""Of RGB in [0, 1] over ImageNet's training set; what torchvision's weights were trained with."""
STD = (0.229, 0.224, 0.225)

Colour = tuple[float, float, float]

_SEED = 0
_SHOWN = 5
_EXAMPLES = ["mobilenet_v2", "tf_efficientnet_lite2", "resnet50", "vit_b_16"]
_LITE = "tf_efficientnet_lite"


@dataclass(frozen=True)
class CutClassifier:
    """A classifier without its last layer.

    Attributes:
        network: images float32 [n, 3, S, S] to embeddings float32 [n, dim].
        dim: length of an embedding.
        last: names, in a state_dict of the whole classifier, of the layers that were cut off.
    """

    network: nn.Module
    dim: int
    last: tuple[str, ...]


def construct(name: str, *, image_size: int) -> CutClassifier:
    """The classifier `name`, cut, with random weights that are the same each time.

    Args:
        name: torchvision's, or timm's of a network that torchvision does not have.
        image_size: pixels a side.

    Raises:
        ConfigError: no such classifier, or it does not take images of this size.
    """
    make = _from_torchvision if is_torchvision(name) else _from_timm
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        try:
            return make(name, image_size)
        except (AssertionError, ValueError) as error:
            raise ConfigError(f"{name} takes no images of {image_size} x {image_size} pixels: {error}") from error


def normalisation(name: str) -> tuple[Colour, Colour]:
    """Mean and scale of RGB in [0, 1] that the published weights of the classifier `name` were trained with.

    EfficientNet-Lite has (pixel - 127) / 128, as its authors publish; timm's entry rounds that to 127.5.

    Raises:
        ConfigError: no such classifier.
    """
    if is_torchvision(name):
        return MEAN, STD
    if name.startswith(_LITE):
        return (127 / 255,) * 3, (128 / 255,) * 3
    published: Any = require_timm(name).get_pretrained_cfg(name)
    return (MEAN, STD) if published is None else (tuple(published.mean), tuple(published.std))


def is_torchvision(name: str) -> bool:
    """Whether torchvision has a classifier of this name."""
    return name in torchvision.models.list_models(module=torchvision.models)


def _from_torchvision(name: str, image_size: int) -> CutClassifier:
    network: nn.Module = torchvision.models.get_model(name, weights=None, **_arguments(name, image_size))
    layers = [(name, layer) for name, layer in network.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    last, layer = layers[-1]
    dim = layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels
    network.set_submodule(last, nn.Identity())
    return CutClassifier(network, dim, (last,))


def _arguments(name: str, image_size: int) -> dict[str, Any]:
    """A constructor's arguments; the two Inceptions were trained on another normalisation."""
    if name.startswith("vit_"):
        return {"image_size": image_size}
    if name.startswith("maxvit"):
        return {"input_size": (image_size, image_size)}
    if name in ("googlenet", "inception_v3"):
        return {"transform_input": True, "init_weights": True}
    return {}


def _from_timm(name: str, image_size: int) -> CutClassifier:
    timm = require_timm(name)
    published = timm.get_pretrained_cfg(name)
    size = {"img_size": image_size} if published is not None and published.fixed_input_size else {}
    network: Any = timm.create_model(name, pretrained=False, num_classes=0, **size)
    last = network.pretrained_cfg["classifier"] or ()
    return CutClassifier(network, network.head_hidden_size, (last,) if isinstance(last, str) else tuple(last))


def require_timm(name: str) -> ModuleType:
    """The module timm, imported where it is needed.

    Raises:
        ConfigError: it has no classifier `name`.
    """
    import timm

    if timm.is_model(name):
        return timm
    known = [*torchvision.models.list_models(module=torchvision.models), *timm.list_models()]
    close = difflib.get_close_matches(name, known, n=3) or _EXAMPLES
    raise ConfigError(
        f"backbone.name: found {name!r}, no classifier of torchvision or timm; did you mean {list_names(close)}?"
    )


def list_names(names: list[str]) -> str:
    """The first of the names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN]) or "none"
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
