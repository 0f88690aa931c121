"""One head on every processor: processors are simulated by what torch, MKL, oneDNN, NumPy and the C library obey."""

import json
import os
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
import torch
from tests.training import kernels_program
from torch.utils._python_dispatch import TorchDispatchMode

from nsh.system import kernels

ROOT = Path(__file__).parents[2]
PROCESSORS = {
    "older": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "AUTO",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Prescott",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
    },
    "newer": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_CBWR": "AVX512",
        "ONEDNN_MAX_CPU_ISA": "ALL",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX",
    },
}
needs_avx2 = pytest.mark.skipif(not kernels.are_fixable(), reason="x86-64 with AVX2 alone has fixed kernels")


BOTH = torch.float32, torch.float64
UNSAFE = {
    **dict.fromkeys(["sqrt", "acos", "asin", "atan", "log2", "log10", "_cdist_forward"], BOTH),
    "pow": BOTH,  # to 1/2 alone, which is a root
    "log": (torch.float64,),
    "tan": (torch.float64,),
    "linalg_cholesky_ex": (torch.float32,),
}
"""What QEMU's processors give other last bits for, a million values each (docs/experiments.md), and of which type."""


class Unsafe(TorchDispatchMode):
    """Collects the unsafe operations in its block, backward passes among them."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        name = operation.overloadpacket.__name__.removeprefix("_foreach_").rstrip("_")
        tensors = arguments[0] if arguments and isinstance(arguments[0], list) else arguments[:1]
        dtypes = {getattr(tensor, "dtype", None) for tensor in tensors}
        if name != "pow" or arguments[1] == 0.5:
            self.found |= {f"{name} of {dtype}" for dtype in dtypes.intersection(UNSAFE.get(name, ()))}
        return operation(*arguments, **(keywords or {}))


def start(folder: Path, name: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.training.kernels_program", str(folder / name), *arguments]
    before = {key: value for key, value in os.environ.items() if key not in kernels.KERNELS}
    return subprocess.Popen(command, cwd=ROOT, env=before | PROCESSORS.get(name, {}), stdout=subprocess.PIPE, text=True)


@needs_avx2
def test_every_processor_gives_the_same_heads_and_histories(tmp_path):
    """This process is the third processor: conftest.py has fixed its kernels. `make test-emulated` emulates others."""
    started = {name: start(tmp_path, name) for name in PROCESSORS}
    started["free"] = start(tmp_path, "free", json.dumps(PROCESSORS["older"]))  # the simulation does simulate
    with Unsafe() as unsafe:
        here = kernels_program.train_all(tmp_path / "this")
    said = {name: process.communicate()[0] for name, process in started.items()}
    assert [process.returncode for process in started.values()] == [0] * 3
    older, newer, free = (json.loads(text.splitlines()[-1]) for text in said.values())
    assert older == newer == here
    assert free["kernels"] == "DEFAULT"
    for name in ("nsh", "cibhash", "nsh_plus", "fine-tuning"):  # a history's six digits may be the same
        assert free[name] != here[name], name
    assert unsafe.found == set()


def test_what_depends_on_the_maker_is_found_in_both_passes():
    values = torch.rand(4, requires_grad=True)
    with Unsafe() as unsafe:
        values.sqrt().sum().backward()
        torch._foreach_sqrt([values.detach().double()])
        values.detach().clone().sqrt_()
        for power in (0.5, 2):
            values.pow(power)
        values.log()
        torch.cdist(values[None], values[None], compute_mode="donot_use_mm_for_euclid_dist")
        torch.linalg.cholesky(torch.eye(3))
    assert unsafe.found == {
        "sqrt of torch.float32",
        "sqrt of torch.float64",
        "pow of torch.float32",
        "_cdist_forward of torch.float32",
        "linalg_cholesky_ex of torch.float32",
    }


USED_BEFORE = """
import torch
torch.randn(8, 8) @ torch.randn(8, 8)
import nsh.methods
from nsh.errors import TrainingError
from nsh.training.reproducible import reproducible
try:
    with reproducible(1):
        print("trained")
except TrainingError as error:
    print(error)
"""


@needs_avx2
def test_torch_that_has_computed_with_other_kernels_is_refused():
    """A user's program that trains after it has used torch: its head would be this processor's own."""
    environment = {key: value for key, value in os.environ.items() if key not in kernels.KERNELS}
    done = subprocess.run(
        [sys.executable, "-c", USED_BEFORE],
        cwd=ROOT,
        env=environment | {"ATEN_CPU_CAPABILITY": "default"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("torch has already computed with kernels of this processor's own (torch DEFAULT, MKL")
    assert "import nsh.methods before torch computes anything, or set ATEN_CPU_CAPABILITY=avx2" in done.stdout
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("machine", "flags", "fixed"),
    [("x86_64", "fpu avx avx2 fma", True), ("x86_64", "fpu avx", False), ("aarch64", "asimd", False)],
)
def test_only_a_processor_that_runs_the_kernels_is_told_to(monkeypatch, machine, flags, fixed):
    monkeypatch.setattr(kernels.platform, "machine", lambda: machine)
    monkeypatch.setattr(kernels.Path, "exists", lambda self: True)
    monkeypatch.setattr(kernels.Path, "read_text", lambda self, encoding: f"flags\t\t: {flags}\n")
    for name in kernels.KERNELS:
        monkeypatch.setenv(name, "")
    kernels.fix_kernels()
    assert {name: os.environ[name] for name in kernels.KERNELS} == (
        kernels.KERNELS if fixed else dict.fromkeys(kernels.KERNELS, "")
    )


def test_the_environment_overrides_how_often_a_waiting_thread_spins(monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT")
    kernels.fix_kernels()
    assert os.environ["GOMP_SPINCOUNT"] == "3000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    kernels.fix_kernels()
    assert os.environ["GOMP_SPINCOUNT"] == "7"


def test_whatever_is_started_and_reaches_torch_reaches_what_fixes_its_kernels():
    graph = grimp.build_graph("nsh", "pipeline", include_external_packages=True, cache_dir=None)
    doors = {"nsh.backbones.networks", "nsh.objectives", "nsh.training.reproducible"}
    assert doors <= graph.find_modules_that_directly_import("nsh.system.kernels")
    starts = graph.find_descendants("pipeline") | graph.find_descendants("nsh.studies")
    users = {name for name in starts if "torch" in graph.find_upstream_modules(name)}
    users -= {"pipeline.download"}  # it loads and saves tensors, and computes with none
    assert {"pipeline.embed", "pipeline.train", "pipeline.export", "nsh.studies.measure"} <= users
    assert {name for name in users if not doors & run_by(graph.find_upstream_modules(name))} == set()


def run_by(modules):
    """These modules, and the packages that they stand in: an import runs both."""
    return {".".join(parts[:count]) for name in modules for parts in [name.split(".")] for count in range(1, 9)}
