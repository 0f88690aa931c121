"""Which operations of torch have other last bits on a processor of another maker, with the kernels of trainings.

    python benchmarks/operations.py                            this processor beside an emulated EPYC and Haswell
    python benchmarks/operations.py --processors EPYC-Milan

Needs QEMU (apt-get install qemu-user). Every operation computes a million values, every factorisation three matrices,
and digests are compared. An operation that refines an instruction's estimate (rcpps, rsqrtps) shows itself, since
QEMU's estimates are exact and no maker's.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from nsh.system.kernels import fix_kernels

VALUES, SIZES = 1_000_000, (12, 32, 64)
ANY = ["exp", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sigmoid", "erf", "erfc", "atan", "reciprocal"]
POSITIVE = ["log", "log1p", "log2", "log10", "sqrt", "rsqrt", "lgamma"]
UNIT = ["asin", "acos", "erfinv"]


def main() -> None:
    """Measure on each processor, and print what differs."""
    parser = argparse.ArgumentParser(description="Compare the bytes of operations between processors.")
    parser.add_argument("--processors", nargs="+", default=["EPYC-Rome", "Haswell"], help="of qemu-x86_64 -cpu help")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(dict(measure())))
        return
    if shutil.which("qemu-x86_64") is None:
        sys.exit("error: found no qemu-x86_64: apt-get install qemu-user")
    here = dict(measure())
    for processor in arguments.processors:
        there = emulate(processor)
        different = [name for name, found in here.items() if there[name] != found]
        print(f"{processor}: {len(different)} of {len(here)} differ: {', '.join(different) or '-'}", flush=True)


def emulate(processor: str) -> dict[str, str]:
    """The digests of this program on an emulated processor."""
    python = Path(sys.executable).resolve()  # QEMU would not follow the link in .venv
    command = ["qemu-x86_64", "-cpu", processor, str(python), __file__, "--measure"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def measure() -> Iterator[tuple[str, str]]:
    """The name of every operation with its type, and the digest of what it gives."""
    fix_kernels()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    values, unit = 4 * torch.randn(VALUES, generator=generator), 2 * torch.rand(VALUES, generator=generator) - 1
    wide = torch.exp2(200 * torch.rand(VALUES // 2, generator=generator) - 100)
    positive = torch.cat([wide, values[VALUES // 2 :].abs() + 1e-3])
    for dtype in (torch.float32, torch.float64):
        for names, inputs in ((ANY, values), (POSITIVE, positive), (UNIT, unit)):
            for name in names:
                yield f"{name} of {kind(dtype)}", digest(getattr(torch, name)(inputs.to(dtype)))
        for size in SIZES:
            matrix = torch.randn(200, size, generator=generator, dtype=dtype)
            yield from ((f"{name} {size} of {kind(dtype)}", found) for name, found in factorise(matrix))
    rows = values.view(-1, 50)
    yield "softmax", digest(rows.softmax(dim=1))
    yield "logsumexp", digest(rows.logsumexp(dim=1))
    yield "normalize", digest(functional.normalize(rows))
    yield "std", digest(rows.std(dim=1))
    yield "batch_norm", digest(functional.batch_norm(rows, None, None, training=True))
    yield "root by rsqrt", digest(positive.rsqrt().reciprocal())


def factorise(matrix: Tensor) -> Iterator[tuple[str, str]]:
    """Products and factors of a matrix [n, d] and of its covariance."""
    covariance = torch.eye(matrix.shape[1], dtype=matrix.dtype) + matrix.T @ matrix / len(matrix)
    factor = torch.linalg.cholesky(covariance)
    yield "matmul", digest(covariance)
    yield "cholesky", digest(factor)
    yield "solve_triangular", digest(torch.linalg.solve_triangular(factor, matrix.T, upper=False))
    yield "eigh", digest(torch.linalg.eigh(covariance).eigenvectors)
    yield "qr", digest(torch.linalg.qr(matrix).Q)
    yield "svd", digest(torch.linalg.svd(matrix, full_matrices=False).U)


def kind(dtype: torch.dtype) -> str:
    """A type without torch's name."""
    return str(dtype).removeprefix("torch.")


def digest(values: Tensor) -> str:
    """Of the bytes of a tensor."""
    return hashlib.sha256(values.contiguous().numpy().tobytes()).hexdigest()


if __name__ == "__main__":
    main()
