"""Packages an encoder file as an MLflow model: `mlflow models serve` answers images, `mlflow.onnx` gives the graph.

The ONNX file in it is byte for byte the evaluated file. Beside it lies the code that reads images (`nsh.zip`), so that
a server needs numpy, Pillow and onnxruntime, and no `nsh`. Knows nothing of runs or versions.
"""

import base64
import io
import shutil
import warnings
import zipfile
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

import nsh
from nsh.core.contract import METADATA_KEY, EncoderContract
from nsh.core.identity import read_contract
from nsh.system.files import write_bytes, write_json

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

ENCODER_FILE, CODE_FILE = "model.onnx", "nsh.zip"
LOADER = "nsh.serving.mlflow_model"
CODE = ("__init__.py", "errors.py", "core", "system", "serving")  # of nsh, with all that `LOADER` imports
LIBRARIES = ("numpy", "pillow", "onnxruntime")


def package(encoder: Path, *, into: Path) -> Path:
    """Make the model folder `into` of the ONNX file `encoder`, and return it.

    Raises:
        CodesError: the file is no encoder, or has changed since its export.
    """
    import mlflow.onnx
    import onnx
    from mlflow.models import Model

    content = encoder.read_bytes()
    contract = read_contract(content, name=str(encoder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns about its own type hints
        mlflow.onnx.save_model(
            onnx.load_from_string(content),
            str(into),
            signature=_signature(),
            pip_requirements=_requirements(),
            onnx_execution_providers=["CPUExecutionProvider"],
            metadata={METADATA_KEY: contract.to_json()},
            save_as_external_data=False,
        )
    shutil.copyfile(encoder, into / ENCODER_FILE)  # save_model serialises again, but the digest must not change
    write_bytes(into / CODE_FILE, _code())
    model = Model.load(str(into))
    model.flavors["python_function"] |= {"loader_module": LOADER, "code": CODE_FILE}
    model.saved_input_example_info = _write_example(contract, into)
    model.save(str(into / "MLmodel"))
    return into


def _signature() -> "ModelSignature":
    """Of `nsh.serving.mlflow_model`; in JSON, bytes are base64."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    code, error = (ColSpec("string", name, required=False) for name in ("code", "error"))
    return ModelSignature(inputs=Schema([ColSpec("binary", "image")]), outputs=Schema([code, error]))


def _write_example(contract: EncoderContract, into: Path) -> dict[str, Any]:
    """Write a request with one JPEG, and return what MLmodel says of it."""
    grey, file = np.linspace(0, 255, contract.image_size).astype(np.uint8), io.BytesIO()
    Image.fromarray(np.tile(grey, (contract.image_size, 1))).save(file, "jpeg")
    table = {"columns": ["image"], "data": [[base64.b64encode(file.getvalue()).decode()]]}
    write_json(into / "input_example.json", table)
    write_json(into / "serving_input_example.json", {"dataframe_split": table})
    return {
        "artifact_path": "input_example.json",
        "serving_input_path": "serving_input_example.json",
        "type": "dataframe",
        "pandas_orient": "split",
    }


def _requirements() -> list[str]:
    """What `LIBRARIES` are asked for by `nsh[serve]`."""
    asked = [line.partition(";")[0].strip() for line in requires("nsh") or ()]
    return [next(line for line in asked if line.startswith(name)) for name in LIBRARIES]


@cache
def _code() -> bytes:
    """The modules of `CODE` as a ZIP file, which Python imports from."""
    package, file = Path(nsh.__file__).parent, io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in CODE:
            for path in sorted([package / name] if name.endswith(".py") else (package / name).rglob("*.py")):
                archive.write(path, path.relative_to(package.parent))
    return file.getvalue()
