"""Torch made to compute the same bytes on every run. It knows nothing of what is computed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def reproducible(threads: int) -> Iterator[None]:
    """Fixed threads and deterministic kernels inside, the caller's settings again outside."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it deterministic CUDA kernels refuse to run
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
