"""Packages an encoder file as an MLflow model, for `mlflow.onnx` and `mlflow models serve`.

The ONNX file in it is byte for byte the evaluated file. Knows nothing of runs or versions.
"""

import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from nsh.core.contract import METADATA_KEY, EncoderContract
from nsh.core.identity import read_contract

if TYPE_CHECKING:
    from mlflow.models import ModelSignature
    from onnx import ModelProto

ENCODER_FILE = "model.onnx"


def package(encoder: Path, *, into: Path) -> Path:
    """Make the model folder `into` of the ONNX file `encoder`, and return it.

    Raises:
        CodesError: the file is no encoder, or has changed since its export.
    """
    import mlflow.onnx
    import onnx

    content = encoder.read_bytes()
    contract = read_contract(content, name=str(encoder))
    model = onnx.load_from_string(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns about its own type hints
        mlflow.onnx.save_model(
            model,
            str(into),
            signature=_signature(contract, dim=_embedding_dim(model)),
            pip_requirements=["onnxruntime", "numpy"],
            onnx_execution_providers=["CPUExecutionProvider"],
            metadata={METADATA_KEY: contract.to_json()},
            save_as_external_data=False,
        )
    shutil.copyfile(encoder, into / ENCODER_FILE)  # save_model serialises again, but the digest must not change
    return into


def _signature(contract: EncoderContract, *, dim: int) -> "ModelSignature":
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    size, code_bytes = contract.image_size, -(-contract.bits // 8)
    return ModelSignature(
        inputs=Schema([TensorSpec(np.dtype(np.uint8), (-1, size, size, 3), "image")]),
        outputs=Schema(
            [
                TensorSpec(np.dtype(np.uint8), (-1, code_bytes), "code"),
                TensorSpec(np.dtype(np.float32), (-1, contract.bits), "logit"),
                TensorSpec(np.dtype(np.float32), (-1, dim), "embedding"),
            ]
        ),
    )


def _embedding_dim(model: "ModelProto") -> int:
    output = next(output for output in model.graph.output if output.name == "embedding")
    return int(output.type.tensor_type.shape.dim[1].dim_value)
