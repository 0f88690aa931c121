"""The part of an encoder that follows the embedding, for images whose embeddings are already there.

It needs onnx but no torch, so that encoding stays a production command.
"""

from pathlib import Path

import onnx
import onnx.utils

from nsh.core.errors import ExportError


def head_part(encoder_path: Path) -> bytes:
    """Cut the sub-graph from `embedding`, float32 [n, d], to `code` and `logit` out of an encoder file.

    Raises:
        ExportError: the file is no encoder that `nsh.export.graph.join_head` made.
    """
    try:
        model = onnx.load(encoder_path)
        part = onnx.utils.Extractor(model).extract_model(["embedding"], ["code", "logit"])
    except Exception as error:  # onnx and protobuf raise many kinds
        raise ExportError(f"{encoder_path} is no encoder with `embedding`, `code` and `logit`: {error}") from error
    content: bytes = part.SerializeToString(deterministic=True)
    return content
