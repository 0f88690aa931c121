"""Which device torch works on. Knows nothing of what it works on."""

import torch

from nsh.errors import ConfigError


def choose_device(name: str) -> str:
    """What "auto" stands for here, "cuda" if torch has one, else "cpu"; any other device is what it says.

    Raises:
        ConfigError: CUDA is asked for and not there.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    index = int(name.partition(":")[2] or 0)
    if name.startswith("cuda") and index >= torch.cuda.device_count():
        raise ConfigError(
            f"compute.device: found {name}, torch sees {torch.cuda.device_count()} CUDA devices: choose auto or cpu"
        )
    return name
