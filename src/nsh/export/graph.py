"""Exports torch networks as ONNX graphs: backbone, hash head and bit packing in one self-describing file.

The same network gives the same bytes in every process and folder: names of the exporting machine are removed. The graph
of an encoder is canonical (`nsh.export.canonical`), so that its identity depends on no name in the exporting code. This
module does not compare the graph with torch (`nsh.export.parity` does), and reads no image.
"""

import copy
import logging
import warnings
from dataclasses import replace
from pathlib import Path

import onnx
import onnx.compose
import torch
from torch import Tensor, nn

from nsh.backbones.networks import Backbone
from nsh.backbones.pixels import ImageToEmbedding
from nsh.core.codes import code_bytes
from nsh.core.contract import METADATA_KEY, EncoderContract
from nsh.core.identity import identity_of
from nsh.errors import ExportError
from nsh.export.canonical import canonicalise, strip
from nsh.system.files import write_bytes

OPSET = 20
SIZE_LIMIT = 2**31 - 1  # bytes; protobuf's own limit for one file
OUTPUTS = ["code", "logit", "embedding"]
EXAMPLE_BATCH = 2  # torch.export makes an axis of length 0 or 1 constant


class EmbeddingToCode(nn.Module):
    """A hash head and the bit rule: from an embedding to the packed code and the logits."""

    place_value: Tensor

    def __init__(self, head: nn.Module, *, bits: int) -> None:
        super().__init__()
        self.head = head
        self.register_buffer("place_value", _place_values(bits))

    def forward(self, embedding: Tensor) -> tuple[Tensor, Tensor]:
        """Map embeddings, float32 [n, d], to codes, uint8 [n, ceil(bits / 8)], and logits, float32 [n, bits].

        A byte is a sum of up to eight powers of two, so the matrix product is exact in float32.
        """
        logit = self.head(embedding)
        code = (logit > 0).to(torch.float32) @ self.place_value
        return code.to(torch.uint8), logit


def _place_values(bits: int) -> Tensor:
    """The value of bit i in byte j, [bits, ceil(bits / 8)], most significant bit first."""
    values = torch.zeros(bits, code_bytes(bits))
    for bit in range(bits):
        values[bit, bit // 8] = 2.0 ** (7 - bit % 8)
    return values


def export_backbone(backbone: Backbone, *, image_size: int) -> onnx.ModelProto:
    """Export a backbone with its normalisation.

    Args:
        backbone: maps normalised images, float32 [n, 3, S, S], to embeddings, float32 [n, d].
        image_size: S, in pixels.

    Returns:
        The graph from `image`, uint8 [n, S, S, 3], to `embedding`, float32 [n, d]; the batch length n is free.

    Raises:
        ExportError: torch cannot express the network in ONNX, or it is larger than one file can be.
    """
    example = torch.zeros(EXAMPLE_BATCH, image_size, image_size, 3, dtype=torch.uint8)
    return _export(ImageToEmbedding(backbone), example, input_name="image", output_names=["embedding"])


def join_head(backbone_model: onnx.ModelProto, head: nn.Module, contract: EncoderContract) -> onnx.ModelProto:
    """Append a hash head and the bit packing to an exported backbone, and put the contract into the metadata.

    The backbone's nodes and weights do not change, only their names, so the embeddings are those of its own graph.

    Args:
        backbone_model: from `export_backbone`.
        head: maps embeddings, float32 [n, d], to logits, float32 [n, bits].
        contract: the file's metadata, without the identity, which is computed here; `contract.bits` must be the head's.

    Returns:
        The graph from `image` to `code`, uint8 [n, ceil(bits / 8)], `logit`, float32 [n, bits], and `embedding`.

    Raises:
        ExportError: the head does not fit, cannot be expressed in ONNX, or the whole is too large for one file.
    """
    dim = backbone_model.graph.output[0].type.tensor_type.shape.dim[1].dim_value
    _check_head(head, dim=dim, bits=contract.bits)
    module = EmbeddingToCode(head, bits=contract.bits)
    tail = _export(module, torch.zeros(EXAMPLE_BATCH, dim), input_name="embedding", output_names=["code", "logit"])
    tail = onnx.compose.add_prefix(tail, "head/", rename_outputs=False)
    model = onnx.compose.merge_models(
        backbone_model,
        tail,
        io_map=[("embedding", "head/embedding")],
        outputs=OUTPUTS,
        name="encoder",
        producer_name="nsh",
    )
    model.graph.output.sort(key=lambda output: OUTPUTS.index(output.name))
    canonicalise(model)
    _checked(model)
    identified = replace(contract, identity=identity_of(to_bytes(model), contract))
    onnx.helper.set_model_props(model, {METADATA_KEY: identified.to_json()})
    return model


def to_bytes(model: onnx.ModelProto) -> bytes:
    """Serialise a model; equal models give equal bytes."""
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def save(model: onnx.ModelProto, path: Path) -> None:
    """Write a model to `path` as one file, atomically."""
    write_bytes(path, to_bytes(model))


def _check_head(head: nn.Module, *, dim: int, bits: int) -> None:
    try:
        with torch.no_grad():
            shape = tuple(head(torch.zeros(EXAMPLE_BATCH, dim)).shape)
    except RuntimeError as error:
        raise ExportError(f"the head does not take the backbone's embeddings of length {dim}: {error}") from error
    if shape != (EXAMPLE_BATCH, bits):
        raise ExportError(f"the head gives logits of shape {shape[1:]}, the contract says ({bits},): train it again")


def _export(module: nn.Module, example: Tensor, *, input_name: str, output_names: list[str]) -> onnx.ModelProto:
    module = copy.deepcopy(module).cpu().eval()  # the caller's network keeps its device and mode
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter warns about its own internals
            program = torch.onnx.export(
                module,
                (example,),
                input_names=[input_name],
                output_names=output_names,
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
                dynamic_shapes=({0: torch.export.Dim("n")},),
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        raise ExportError(f"torch cannot express {type(module).__name__} in ONNX: {error}") from error
    assert program is not None  # only the old exporter returns None
    model = program.model_proto  # each access makes a new one
    strip(model)
    return _checked(model)


def _checked(model: onnx.ModelProto) -> onnx.ModelProto:
    if model.ByteSize() > SIZE_LIMIT:
        raise ExportError(f"the graph has {model.ByteSize():,} bytes, one ONNX file holds {SIZE_LIMIT:,} at most")
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ExportError(f"torch exported an invalid ONNX graph: {error}") from error
    return model
