"""One set of CPU kernels for torch on every x86-64 processor. It knows nothing of what they compute.

Torch, MKL and oneDNN choose kernels by the processor they find. Other kernels add in another order and end in other
last bits, which training makes large: one head a processor. AVX2 is what nearly all of them have in common.
"""

import os
import platform
from pathlib import Path

KERNELS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",  # the only branch that MKL takes on processors of every maker
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
"""Settings of torch and its libraries, which override the environment."""

SPINS = {"GOMP_SPINCOUNT": "3000"}  # OpenMP's own number, 300,000, takes the core that other processes need
"""How often a waiting thread of OpenMP spins before it sleeps. The environment overrides it: no byte depends on it."""


def fix_kernels() -> None:
    """Apply them, before any use of torch; after `import torch` is early enough, as its first operation reads them.

    Nothing is fixed on another architecture, nor on a processor without AVX2, which could not run these kernels.
    `SPINS` has an effect only before `import torch`.
    """
    for name, value in SPINS.items():
        os.environ.setdefault(name, value)
    if are_fixable():
        os.environ.update(KERNELS)


def are_fixable() -> bool:
    """Whether this processor runs the fixed kernels."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    flags = Path("/proc/cpuinfo")  # only Linux has it; elsewhere AVX2 is taken for granted
    return not flags.exists() or "avx2" in flags.read_text(encoding="utf-8").split()
