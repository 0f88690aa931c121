"""The device that torch uses. Knows no network."""

import torch

from nsh.errors import ConfigError


def choose_device(name: str) -> str:
    """Replace "auto" by "cuda" if torch has a CUDA device, else by "cpu"; other names stay.

    Raises:
        ConfigError: the CUDA device does not exist.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    index = int(name.partition(":")[2] or 0)
    if name.startswith("cuda") and index >= torch.cuda.device_count():
        raise ConfigError(
            f"compute.device: found {name}, torch sees {torch.cuda.device_count()} CUDA devices: choose auto or cpu"
        )
    return name
