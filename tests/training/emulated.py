"""One head on every processor, on processors that QEMU emulates: `make test-emulated` takes minutes.

`test_kernels.py` simulates processors by variables, which a library may pass over: MKL reads the maker's name and the
processor's own estimates of reciprocals, which nothing but another processor shows.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.training import kernels_program

ROOT = Path(__file__).parents[2]
PROCESSORS = ["EPYC-Rome", "Haswell"]  # of either maker, without AVX-512


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return kernels_program.train_all(tmp_path_factory.mktemp("here"))


@pytest.mark.parametrize("processor", PROCESSORS)
def test_an_emulated_processor_gives_the_same_heads_and_histories(processor, here, tmp_path):
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.fail("found no qemu-x86_64: apt-get install qemu-user")
    python = Path(sys.executable).resolve()  # QEMU would not follow the link in .venv; PYTHONPATH names its packages
    command = [emulator, "-cpu", processor, str(python), "-m", "tests.training.kernels_program", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), *sys.path[1:]])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    there = json.loads(done.stdout.splitlines()[-1])
    assert {name for name in here if there[name] != here[name]} == set()
