"""Noise for objectives that need it, the same after an interruption as without one. It knows no loss."""

import numpy as np
import torch
from torch import Tensor, nn


class Draws(nn.Module):
    """Uniform noise from (seed, number of draws so far); the number is a buffer, so it travels in a checkpoint."""

    count: Tensor

    def __init__(self, *, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def uniform(self, rows: int, columns: int) -> Tensor:
        """Float32 [rows, columns] in [0, 1), on the device of the objective."""
        noise = np.random.default_rng([self.seed, int(self.count)]).random((rows, columns), dtype=np.float32)
        self.count += 1
        return torch.from_numpy(noise).to(self.count.device)
