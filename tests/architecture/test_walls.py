"""Importing a room must not pull in what the room is forbidden to know, however the import happens."""

import json
import subprocess
import sys

import pytest

LISTING = "import json, sys; import {module}; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"


def loaded_by(module: str) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-c", LISTING.format(module=module)], capture_output=True, text=True, check=True
    )
    return set(json.loads(result.stdout))


@pytest.mark.parametrize(
    "module", ["nsh.serving", "nsh.serving.encoder", "nsh.core.hamming", "nsh.core.preprocess", "nsh.cli"]
)
def test_production_loads_no_training_or_operations_library(module: str) -> None:
    forbidden = {"torch", "torchvision", "lightning", "mlflow", "dvc", "onnx", "pyarrow", "matplotlib", "pydantic"}
    assert not loaded_by(module) & forbidden


def test_core_loads_numpy_and_pillow_only() -> None:
    forbidden = {"onnxruntime", "torch", "typer", "pydantic", "tqdm"}
    assert not loaded_by("nsh.core.metrics") & forbidden


def test_the_package_itself_loads_nothing() -> None:
    assert not loaded_by("nsh") & {"numpy", "PIL", "torch"}


def test_onnxruntime_telemetry_is_off_before_it_is_imported() -> None:
    code = "import nsh, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert result.stdout.strip() == "1"
