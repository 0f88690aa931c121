"""Converts a backbone's graph to 16-bit floats, or to 8-bit integers calibrated on training images.

The backbone has nearly all weights and takes nearly all time; the head, which decides bits, stays in float32. Input and
output keep their types. It does not measure the loss (`nsh.export.cost` does), and reads no image.
"""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nsh.errors import ExportError

BATCH = 16  # calibration images at once
STEM_END = "Conv"  # the first one reads the normalised pixels; its errors would affect all later layers
NORMALISATION = ("Div", "Sub")  # of pixels, in float32 as in torch


def shrink(backbone: onnx.ModelProto, *, precision: str, images: NDArray[np.uint8]) -> onnx.ModelProto:
    """Make a backbone of less precision.

    Args:
        backbone: from `nsh.export.graph.export_backbone`; it is not changed.
        precision: "fp16" or "int8".
        images: uint8 [n, S, S, 3], to calibrate int8 with; fp16 needs none.

    Returns:
        The graph from `image`, uint8, to `embedding`, float32 [n, d]. The same arguments give the same bytes.

    Raises:
        ExportError: no such precision, no image to calibrate with, or onnxruntime cannot convert this network.
    """
    if precision not in ("fp16", "int8"):
        raise ExportError(f"found precision {precision!r}, allowed are fp16 and int8")
    copy = onnx.ModelProto()
    copy.CopyFrom(backbone)
    try:
        smaller = to_half(copy) if precision == "fp16" else to_integers(copy, images)
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ExportError(f"onnxruntime cannot make this backbone {precision}: {error}; choose fp32") from error
    smaller.ir_version = backbone.ir_version
    return smaller


def to_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """Make all but the normalisation of pixels float16."""
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    blocked = [*DEFAULT_OP_BLOCK_LIST, *NORMALISATION]
    half = OnnxModel(convert_float_to_float16(model, keep_io_types=True, op_block_list=blocked))
    half.topological_sort()  # the conversion appends its casts
    converted: onnx.ModelProto = half.model
    converted.graph.ClearField("value_info")  # outdated types
    return converted


def to_integers(model: onnx.ModelProto, images: NDArray[np.uint8]) -> onnx.ModelProto:
    """Make all layers after the first one U8S8: activations uint8 per tensor, weights int8 per channel.

    Raises:
        ExportError: there is no image.
    """
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    if not len(images):
        raise ExportError("there is no image to calibrate int8 with: look at the split's train part")
    with tempfile.TemporaryDirectory() as scratch, _quiet():
        whole, prepared, result = (Path(scratch) / f"{name}.onnx" for name in ("whole", "prepared", "int8"))
        onnx.save(model, whole)
        quant_pre_process(whole, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            result,
            _Reader(images, name=model.graph.input[0].name),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            nodes_to_exclude=_stem(onnx.load(prepared)),
        )
        return onnx.load(result)


def _stem(model: onnx.ModelProto) -> list[str]:
    """Names of the nodes up to the first convolution, which stay float32; none in a network without convolution."""
    names, kinds = [node.name for node in model.graph.node], [node.op_type for node in model.graph.node]
    return names[: kinds.index(STEM_END) + 1] if STEM_END in kinds else []


class _Reader:
    """Calibration images in the form of onnxruntime's `CalibrationDataReader`: dictionaries, then None."""

    def __init__(self, images: NDArray[np.uint8], *, name: str) -> None:
        self.name = name
        self.batches: Iterator[NDArray[np.uint8]] = iter(
            [images[start : start + BATCH] for start in range(0, len(images), BATCH)]
        )

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self.batches, None)
        return None if batch is None else {self.name: batch}


class _quiet:  # noqa: N801 - a context manager
    """Silence the root logger: onnxruntime logs advice that is already followed."""

    def __enter__(self) -> None:
        self.level = logging.root.level
        logging.root.setLevel(logging.ERROR)

    def __exit__(self, *exception: object) -> None:
        logging.root.setLevel(self.level)
