"""Noise for objectives that need it, the same after an interruption as without one. It knows no loss."""

import numpy as np
import torch
from torch import Tensor, nn


class Counter(nn.Module):
    """A number that travels in a checkpoint, and stays on the CPU: to read it on a GPU is to wait for the GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def get_extra_state(self) -> Tensor:
        """What a state dict holds of it."""
        return torch.tensor(self.count)

    def set_extra_state(self, state: Tensor) -> None:
        """Go on from a state dict."""
        self.count = int(state)


class Noise(Counter):
    """Uniform noise from (seed, number of draws so far)."""

    def __init__(self, *, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def uniform(self, rows: int, columns: int, *, device: torch.device | str = "cpu") -> Tensor:
        """Float32 [rows, columns] in [0, 1), on `device`."""
        noise = np.random.default_rng([self.seed, self.count]).random((rows, columns), dtype=np.float32)
        self.count += 1
        return torch.from_numpy(noise).to(device, non_blocking=True)
