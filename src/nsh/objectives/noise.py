"""Random numbers for objectives, equal with and without an interruption. Knows no loss."""

import numpy as np
import torch
from torch import Tensor, nn


class Counter(nn.Module):
    """A number that checkpoints hold; it stays on the CPU, because reading it from a GPU would wait for the GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def get_extra_state(self) -> Tensor:
        """The number, for the state dict."""
        return torch.tensor(self.count)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the number from a state dict."""
        self.count = int(state)


class Noise(Counter):
    """Uniform noise, seeded with (seed, number of draws so far)."""

    def __init__(self, *, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def uniform(self, rows: int, columns: int, *, device: torch.device | str = "cpu") -> Tensor:
        """Float32 [rows, columns] in [0, 1), on `device`."""
        noise = np.random.default_rng([self.seed, self.count]).random((rows, columns), dtype=np.float32)
        self.count += 1
        return torch.from_numpy(noise).to(device, non_blocking=True)
