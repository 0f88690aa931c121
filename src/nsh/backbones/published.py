"""Builds a backbone with the weights from the download stage."""

from pathlib import Path

from nsh.backbones import networks, weights
from nsh.backbones.networks import Backbone
from nsh.backbones.weights import WeightsInfo


def open_published(name: str, folder: Path, *, image_size: int) -> tuple[Backbone, WeightsInfo]:
    """Build the backbone `name` with the weights in `folder`; return both.

    Args:
        name: a classifier of torchvision or timm.
        folder: from `nsh.backbones.weights.fetch`.
        image_size: pixels a side.

    Raises:
        ConfigError: no such classifier, or it does not take images of this size.
        DataError: there are no weights in `folder`, or they are another network's.
    """
    info = weights.read(folder)
    return networks.build(name, weights=info.path, image_size=image_size), info
