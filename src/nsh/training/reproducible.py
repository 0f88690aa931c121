"""Makes torch compute the same bytes in every run and on every x86-64 CPU. Knows nothing of what is computed."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from nsh.errors import TrainingError
from nsh.system.kernels import KERNELS, are_fixable, fix_kernels

_BRANCH, _COMPATIBLE = 1, 3  # of MKL's conditional numerical reproducibility, as its header numbers them


@contextmanager
def reproducible(threads: int) -> Iterator[None]:
    """Use `threads` threads and fixed, deterministic kernels in the block; restore the caller's settings after it.

    Raises:
        TrainingError: torch has already computed with other kernels than `nsh.system.kernels` fixes.
    """
    fix_kernels()
    _check_kernels()
    before = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it deterministic CUDA kernels refuse to run
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode("error")  # `use_deterministic_algorithms` imports torch's compiler: seconds
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_deterministic_debug_mode(before[1])


def _check_kernels() -> None:
    found, branch = torch.backends.cpu.get_cpu_capability(), _mkl_branch()
    if not are_fixable() or (found == "AVX2" and branch in (None, _COMPATIBLE)):
        return
    wanted = " ".join(f"{name}={value}" for name, value in KERNELS.items())
    raise TrainingError(
        f"torch has already computed with kernels of this processor's own (torch {found}, MKL's branch {branch}), and "
        f"heads would differ from one processor to the next: import nsh.methods before torch computes anything, or set "
        f"{wanted}"
    )


def _mkl_branch() -> int | None:
    """The branch that MKL computes with from now on; None if torch has no MKL with this function."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        return int(library.mkl_serv_cbwr_get(_BRANCH))
    except (OSError, AttributeError):
        return None
