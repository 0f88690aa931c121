"""Backbones: torchvision classifiers without their last layer, which turn images into embeddings.

One rule cuts every classifier: the last layer with weights becomes the identity, so the embedding is that layer's
input. Does not know where weights come from or how images are loaded.
"""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
import torchvision
from torch import Tensor, nn
from torchvision.models.vision_transformer import interpolate_embeddings

from nsh.errors import ConfigError, DataError
from nsh.system.kernels import fix_kernels

fix_kernels()  # random weights are fitted to noise by torch

MEAN = (0.485, 0.456, 0.406)
"""Of RGB in [0, 1] over ImageNet's training set; what torchvision's weights were trained with."""
STD = (0.229, 0.224, 0.225)

State = dict[str, Tensor]

_SEED = 0
_NOISE_IMAGES = 16
_SHOWN = 5
_POSITIONS = "encoder.pos_embedding"


class Backbone(nn.Module):
    """A frozen network that stays in evaluation mode.

    Attributes:
        name: torchvision's name of the classifier.
        dim: length d of an embedding.
        image_size: the images' pixels a side.
    """

    def __init__(self, network: nn.Module, *, name: str, dim: int, image_size: int) -> None:
        super().__init__()
        self.network = network.requires_grad_(False)
        self.name, self.dim, self.image_size = name, dim, image_size
        self.train(False)

    def forward(self, images: Tensor) -> Tensor:
        """Embed images [n, 3, S, S], RGB in [0, 1] minus `MEAN` and divided by `STD`, as [n, d]."""
        embedding: Tensor = self.network(images)
        return embedding

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode: in training mode the statistics of batch normalisation would change."""
        return super().train(False)


def build(name: str, *, weights: Path | None, image_size: int = 224) -> Backbone:
    """Build the backbone `name`, [n, 3, image_size, image_size] -> [n, d], in evaluation mode and frozen.

    Args:
        name: a torchvision classifier, e.g. "mobilenet_v2", "vgg16" (its fc7 activations), "vit_b_16" (its
            class token).
        weights: a state_dict file of the whole classifier, of all layers but the last, or of its `.features` if no
            other layer but the last has weights; None: random weights, the same each time.
        image_size: pixels a side. Convolutional networks take most sizes; a vision transformer's position
            embeddings are resampled to it (Dosovitskiy et al., ICLR 2021, section 3.2).

    Raises:
        ConfigError: no such classifier, or it does not take images of this size.
        DataError: the file is no state_dict, or not one of this network.
    """
    classifier = _construct(name, image_size=image_size)
    last, dim = _cut(classifier)
    if weights is not None:
        _load(classifier, _read_state(weights), last=last)
    backbone = Backbone(classifier, name=name, dim=dim, image_size=image_size)
    _probe(backbone)
    if weights is None:
        _fit_normalisation(backbone)
    return backbone


def _construct(name: str, *, image_size: int) -> nn.Module:
    known = torchvision.models.list_models(module=torchvision.models)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3) or ["mobilenet_v2", "resnet50", "vit_b_16"]
        raise ConfigError(f"backbone.name: found {name!r}, no classifier of torchvision; did you mean {_list(close)}?")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        try:
            network: nn.Module = torchvision.models.get_model(name, weights=None, **_arguments(name, image_size))
        except (AssertionError, ValueError) as error:
            raise ConfigError(f"{name} takes no images of {image_size} x {image_size} pixels: {error}") from error
    return network


def _arguments(name: str, image_size: int) -> dict[str, Any]:
    """A constructor's arguments; the two Inceptions were trained on another normalisation."""
    if name.startswith("vit_"):
        return {"image_size": image_size}
    if name.startswith("maxvit"):
        return {"input_size": (image_size, image_size)}
    if name in ("googlenet", "inception_v3"):
        return {"transform_input": True, "init_weights": True}
    return {}


def _cut(classifier: nn.Module) -> tuple[str, int]:
    """Replace the last layer by the identity; return its name and the length of its input."""
    layers = [(name, layer) for name, layer in classifier.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    name, layer = layers[-1]
    dim = layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels
    classifier.set_submodule(name, nn.Identity())
    return name, dim


def _read_state(path: Path) -> State:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise DataError(f"the weights {path} are not here: run the download stage, or correct the path") from error
    except Exception as error:  # the unpickler raises any exception on other files
        raise DataError(
            f"{path} is no file of weights that loads without running code ({type(error).__name__})"
        ) from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise DataError(f"{path} holds no state_dict (names and tensors): save `network.state_dict()`")
    return dict(state)


def _load(network: nn.Module, state: State, *, last: str) -> None:
    """Load `state` into the cut network; every tensor must match, except batch counters, unused in evaluation."""
    expected = _without_counters(network.state_dict())
    state = {key: value for key, value in _without_counters(state).items() if not key.startswith(f"{last}.")}
    state = _resample_positions(_with_prefix(state, expected), expected)
    missing = sorted(expected.keys() - state.keys())
    unknown = sorted(state.keys() - expected.keys())
    misfits = sorted(key for key in expected.keys() & state.keys() if expected[key].shape != state[key].shape)
    if missing or unknown or misfits:
        raise DataError(
            "the weights are not this network's: "
            f"missing {_list(missing)}; unknown {_list(unknown)}; of another shape {_list(misfits)}"
        )
    network.load_state_dict(state, strict=False)


def _without_counters(state: State) -> State:
    return {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}


def _with_prefix(state: State, expected: State) -> State:
    """Add the whole network's prefix to the names in a file of `.features` alone."""
    prefix = "features."
    if any(key.startswith(prefix) for key in state) or not all(key.startswith(prefix) for key in expected):
        return state
    return {prefix + key: value for key, value in state.items()}


def _resample_positions(state: State, expected: State) -> State:
    if _POSITIONS not in expected or _POSITIONS not in state or expected[_POSITIONS].shape == state[_POSITIONS].shape:
        return state
    side = round((expected[_POSITIONS].shape[1] - 1) ** 0.5)  # in patches: the first position is the class token's
    positions = {_POSITIONS: state[_POSITIONS]}
    return {**state, **interpolate_embeddings(side, 1, positions)}


def _probe(backbone: Backbone) -> None:
    size = backbone.image_size
    try:
        with torch.inference_mode():
            shape = tuple(backbone(torch.zeros(1, 3, size, size)).shape)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ConfigError(
            f"{backbone.name} takes no images of {size} x {size} pixels ({_first(error)}): choose another image_size"
        ) from error
    if shape != (1, backbone.dim):
        raise ConfigError(f"{backbone.name} gives {list(shape)} for one image, not [1, {backbone.dim}]: choose another")


def _fit_normalisation(backbone: Backbone) -> None:
    """Fit batch normalisation to noise: with initial statistics, random embeddings shrink to 1e-9, below float16."""
    for layer in backbone.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.train()
            layer.momentum = None  # take the statistics of the next batch
    size, generator = backbone.image_size, torch.Generator().manual_seed(_SEED)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more threads sum in another order, which many layers turn into another network
    try:
        with torch.no_grad():
            backbone(torch.randn(_NOISE_IMAGES, 3, size, size, generator=generator))
    finally:
        torch.set_num_threads(threads)
    backbone.eval()


def _list(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) or "none"
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
