"""The parity check before an encoder is written: onnxruntime must give torch's codes at every batch size.

It compares bits on real images, not floats, because bits are what ships. Writes nothing.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import nn

from nsh.backbones.networks import Backbone
from nsh.backbones.pixels import ImageToEmbedding
from nsh.core.codes import binarize, pack, unpack
from nsh.errors import ExportError
from nsh.export.graph import to_bytes
from nsh.serving.session import open_session, run_batches
from nsh.system.progress import Progress, no_progress

IMAGES = 256  # images to compare, if there are as many
BATCH_SIZES = (1, 2, 7, 64)
MIN_BIT_AGREEMENT = 0.999
NOISE = ("flipped_bits", "max_flipped_logit", "max_logit_difference", "same_codes_at_every_batch_size")
"""Figures that depend on the last bits of a logit, and so on the kernels that onnxruntime chooses by the processor."""
MAX_FLIPPED_LOGIT = 1e-3  # a bit may differ only if its logit is this close to 0


def check(
    encoder: onnx.ModelProto,
    *,
    backbone: Backbone,
    head: nn.Module,
    images: NDArray[np.uint8],
    threads: int,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Compare an encoder with the torch networks it was exported from.

    Args:
        encoder: from `nsh.export.graph.join_head`.
        backbone: normalised float32 [n, 3, S, S] to embeddings [n, d].
        head: embeddings [n, d] to logits [n, bits].
        images: uint8 [n, S, S, 3], real images, `IMAGES` of them if the data set has as many.
        threads: onnxruntime's threads.
        progress: shows the batch sizes.

    Returns:
        The comparison; `settle` keeps the figures that are the same on every processor.

    Raises:
        ExportError: no image; a logit that is not finite; a code that is not that of its logits; fewer than
            `MIN_BIT_AGREEMENT` of the bits equal; or a bit that differs with |logit| >= `MAX_FLIPPED_LOGIT`.
    """
    if not len(images):
        raise ExportError("there is no image to compare torch and onnxruntime on: look at the split")
    expected = _run_torch(backbone, head, images)
    session = open_session(to_bytes(encoder), threads=threads)
    codes, logits = [], []
    for batch in progress(BATCH_SIZES, desc="parity at batch sizes", total=len(BATCH_SIZES)):
        code, logit = run_batches(session, ["code", "logit"], images, batch=batch)
        require_packed(code, logit, batch=batch)
        codes.append(code)
        logits.append(logit)
    flips = [unpack(code, bits=expected.shape[1]) != (expected > 0) for code in codes]
    _require_agreement(flips, expected)
    return {
        "images": len(images),
        "images_wanted": IMAGES,
        "batch_sizes": list(BATCH_SIZES),
        "bits": expected.shape[1],
        "bit_agreement": 1 - float(np.mean(flips)),
        "flipped_bits": int(np.sum(flips)),
        "max_flipped_logit": _round(_largest_flipped(flips, expected)),
        "max_logit_difference": _round(max(float(np.abs(logit - expected).max()) for logit in logits)),
        "same_codes_at_every_batch_size": all(np.array_equal(code, codes[0]) for code in codes),
        "opset": encoder.opset_import[0].version,
    }


def settle(report: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of parity.json: without `NOISE`, and agreement in ten-thousandths, so that one bit is no change."""
    kept = {name: value for name, value in report.items() if name not in NOISE}
    return kept | {"bit_agreement": round(report["bit_agreement"], 4)}


def tell(report: Mapping[str, Any]) -> str:
    """The result of `check` in one line."""
    return (
        f"{report['bit_agreement']:.4%} of the bits are torch's on {report['images']} images; "
        f"logits differ by {report['max_logit_difference']} at most"
    )


def _run_torch(backbone: Backbone, head: nn.Module, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    network = nn.Sequential(ImageToEmbedding(backbone), head).cpu().eval()
    with torch.inference_mode():
        logits = torch.cat([network(torch.from_numpy(part)) for part in _batches(images, max(BATCH_SIZES))])
    result: NDArray[np.float32] = logits.numpy()
    _require_finite(result, "torch")
    return result


def _batches(images: NDArray[np.uint8], size: int) -> list[NDArray[np.uint8]]:
    return [images[start : start + size] for start in range(0, len(images), size)]


def _require_finite(logits: NDArray[np.float32], runtime: str) -> None:
    broken = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if len(broken):
        raise ExportError(
            f"{runtime} gives NaN or infinite logits for {len(broken)} of {len(logits)} images: train again"
        )


def require_packed(codes: NDArray[np.uint8], logits: NDArray[np.float32], *, batch: int) -> None:
    """Make sure that `logits` are finite and `codes` are theirs by the bit rule.

    Raises:
        ExportError: they are not.
    """
    _require_finite(logits, "onnxruntime")
    wrong = np.flatnonzero((codes != pack(binarize(logits))).any(axis=1))
    if len(wrong):
        raise ExportError(f"at batch size {batch}, {len(wrong)} codes are not their own logits packed: this is a bug")


def _require_agreement(flips: list[NDArray[np.bool_]], expected: NDArray[np.float32]) -> None:
    advice = "the exported graph is not the trained network; nothing was written"
    agreement = 1 - float(np.mean(flips))
    if agreement < MIN_BIT_AGREEMENT:
        raise ExportError(
            f"{agreement:.4%} of the bits are torch's, at least {MIN_BIT_AGREEMENT:.1%} must be: {advice}"
        )
    largest = _largest_flipped(flips, expected)
    if largest >= MAX_FLIPPED_LOGIT:
        raise ExportError(
            f"a bit with logit {largest:.2e} differs from torch's, only below {MAX_FLIPPED_LOGIT} may one: {advice}"
        )


def _largest_flipped(flips: list[NDArray[np.bool_]], expected: NDArray[np.float32]) -> float:
    """The largest |logit| among torch's bits that flipped; 0 if none did."""
    return float(np.where(np.any(flips, axis=0), np.abs(expected), 0).max())


def _round(value: float) -> float:
    return float(f"{value:.3g}")
