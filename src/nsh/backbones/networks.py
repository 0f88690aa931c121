"""Backbones: classifiers without their last layer, which turn images into embeddings.

An embedding is the input of the classifier's last layer. Does not know where weights come from or how images are
loaded.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from nsh.backbones.classifiers import Colour, CutClassifier, construct, list_names, normalisation
from nsh.backbones.positions import resample_positions
from nsh.errors import ConfigError, DataError
from nsh.system.kernels import fix_kernels

fix_kernels()  # random weights are fitted to noise by torch

State = dict[str, Tensor]

_SEED = 0
_NOISE_IMAGES = 16


class Backbone(nn.Module):
    """A frozen network that stays in evaluation mode.

    Attributes:
        name: the classifier's, of torchvision or timm.
        dim: length d of an embedding.
        image_size: the images' pixels a side.
        mean: of RGB in [0, 1], subtracted from pixels.
        std: that they are then divided by.
    """

    mean: Colour
    std: Colour

    def __init__(self, network: nn.Module, *, name: str, dim: int, image_size: int) -> None:
        super().__init__()
        self.network = network.requires_grad_(False)
        self.name, self.dim, self.image_size = name, dim, image_size
        self.mean, self.std = normalisation(name)
        self.train(False)

    def forward(self, images: Tensor) -> Tensor:
        """Embed images [n, 3, S, S], RGB in [0, 1] minus `mean` and divided by `std`, as [n, d]."""
        embedding: Tensor = self.network(images)
        return embedding

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode: in training mode the statistics of batch normalisation would change."""
        return super().train(False)


def build(name: str, *, weights: Path | None, image_size: int = 224) -> Backbone:
    """Build the backbone `name`, [n, 3, image_size, image_size] -> [n, d], in evaluation mode and frozen.

    Args:
        name: a classifier of torchvision, e.g. "mobilenet_v2", "vgg16" (its fc7 activations), "vit_b_16" (its class
            token), or of timm, e.g. "tf_efficientnet_lite2".
        weights: a state_dict file of the whole classifier, of all layers but the last, or of its `.features` if no
            other layer but the last has weights; None: random weights, the same each time.
        image_size: pixels a side. Convolutional networks take most sizes; a vision transformer's position
            embeddings are resampled to it (Dosovitskiy et al., ICLR 2021, section 3.2).

    Raises:
        ConfigError: no such classifier, or it does not take images of this size.
        DataError: the file is no state_dict, or not one of this network.
    """
    classifier = construct(name, image_size=image_size)
    if weights is not None:
        _load(classifier, _read_state(weights))
    backbone = Backbone(classifier.network, name=name, dim=classifier.dim, image_size=image_size)
    _probe(backbone)
    if weights is None:
        _fit_normalisation(backbone)
    return backbone


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


def _load(classifier: CutClassifier, state: State) -> None:
    """Load `state` into the cut network; every tensor must match, except batch counters, unused in evaluation."""
    expected, last = _without_counters(classifier.network.state_dict()), tuple(f"{name}." for name in classifier.last)
    state = {key: value for key, value in _without_counters(state).items() if not key.startswith(last)}
    state = resample_positions(_with_prefix(state, expected), classifier.network)
    missing = sorted(expected.keys() - state.keys())
    unknown = sorted(state.keys() - expected.keys())
    misfits = sorted(key for key in expected.keys() & state.keys() if expected[key].shape != state[key].shape)
    if missing or unknown or misfits:
        raise DataError(
            "the weights are not this network's: "
            f"missing {list_names(missing)}; unknown {list_names(unknown)}; of another shape {list_names(misfits)}"
        )
    classifier.network.load_state_dict(state, strict=False)


def _without_counters(state: State) -> State:
    return {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}


def _with_prefix(state: State, expected: State) -> State:
    """Add the whole network's prefix to the names in a file of `.features` alone."""
    prefix = "features."
    if any(key.startswith(prefix) for key in state) or not all(key.startswith(prefix) for key in expected):
        return state
    return {prefix + key: value for key, value in state.items()}


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


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
