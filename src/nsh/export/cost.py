"""The loss of an encoder of less precision in bits and mAP, and its gain in speed.

The result is written for the registry, which refuses encoders beyond the limits. Here none is refused, so that it can
be examined. Speed has no limit, because it differs from run to run. Reads no file.
"""

import os
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nsh.core.codes import unpack
from nsh.core.metrics import evaluate
from nsh.export.graph import to_bytes
from nsh.export.parity import require_packed
from nsh.serving.session import open_session, run_batches
from nsh.system.progress import Progress, no_progress

GALLERY, QUERY = 2000, 500  # images of the sample
BATCH = 32
ROUNDS = {1: 15, 32: 5}  # of speed, by batch size


@dataclass(frozen=True)
class Sample:
    """Images of a part of the split, uint8 [n, S, S, 3], and their labels, bool [n, classes], if there are any."""

    images: NDArray[np.uint8]
    labels: NDArray[np.bool_] | None


@dataclass(frozen=True)
class CostLimits:
    """The largest loss against float32 of an encoder that passes."""

    max_bit_flips: float  # share of all bits
    max_mAP_drop: float  # noqa: N815 - as in params.yaml and the metrics


def judge(
    reference: onnx.ModelProto,
    smaller: onnx.ModelProto,
    *,
    gallery: Sample,
    query: Sample,
    limits: CostLimits,
    threads: int,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Compare two encoders with the same head, the second of less precision.

    Args:
        reference: the float32 encoder.
        smaller: the encoder of less precision.
        gallery: at least one image.
        query: at least one image.
        limits: the allowed losses.
        threads: onnxruntime's threads.
        progress: shows the batches.

    Returns:
        For parity.json: `bit_flips`, share of the bits of all images; `mAP_drop`, over the whole gallery of the sample
        (null without labels); and `past_limits`, a sentence for each exceeded limit.

    Raises:
        ExportError: a logit of the smaller encoder is not finite.
    """
    images = np.concatenate([gallery.images, query.images])
    codes = [_encode(model, images, threads=threads, progress=progress) for model in (reference, smaller)]
    bits = smaller.graph.output[1].type.tensor_type.shape.dim[1].dim_value
    flips = float(np.mean(unpack(codes[0], bits=bits) != unpack(codes[1], bits=bits)))
    maps = [_map(code, gallery=gallery, query=query, bits=bits, threads=threads) for code in codes]
    drop = None if maps[0] is None or maps[1] is None else maps[0] - maps[1]
    return {
        "images": len(images),
        "bit_flips": _round(flips),
        "max_bit_flips": limits.max_bit_flips,
        "mAP_of_fp32": None if maps[0] is None else _round(maps[0]),
        "mAP_drop": None if drop is None else _round(drop),
        "max_mAP_drop": limits.max_mAP_drop,
        "past_limits": _past(flips, drop, limits),
    }


def measure_speed(
    reference: onnx.ModelProto, smaller: onnx.ModelProto, *, images: NDArray[np.uint8], threads: int
) -> dict[str, float]:
    """Time two encoders in turn on the same images.

    Returns:
        Median over rounds of (time of the reference / time of the smaller one) by batch size, above 1 is faster; the
        threads, and the machine's load.
    """
    sessions = [open_session(to_bytes(model), threads=threads) for model in (reference, smaller)]
    ratios = {}
    for batch, rounds in ROUNDS.items():
        inputs = {"image": np.resize(images, (batch, *images.shape[1:]))}
        taken = [[_time(session, inputs) for session in sessions] for _ in range(rounds + 1)][1:]  # the first warms up
        ratios[f"speed_at_batch_{batch}"] = statistics.median(before / after for before, after in taken)
    return ratios | {"threads": threads, "load": os.getloadavg()[0]}


def _time(session: Any, inputs: dict[str, NDArray[np.uint8]]) -> float:
    start = time.perf_counter()
    session.run(["code"], inputs)
    return time.perf_counter() - start


def _encode(
    model: onnx.ModelProto, images: NDArray[np.uint8], *, threads: int, progress: Progress
) -> NDArray[np.uint8]:
    session = open_session(to_bytes(model), threads=threads)
    codes, logits = run_batches(
        session, ["code", "logit"], images, batch=BATCH, progress=progress, desc="cost of precision"
    )
    require_packed(codes, logits, batch=BATCH)
    return codes


def _map(codes: NDArray[np.uint8], *, gallery: Sample, query: Sample, bits: int, threads: int) -> float | None:
    """The mAP over the whole gallery; None without labels."""
    if gallery.labels is None:
        return None
    count = len(gallery.images)
    found = evaluate(codes[count:], codes[:count], query.labels, gallery.labels, bits=bits, k=count, threads=threads)
    return found.metrics[f"mAP_at_{count}"]


def _past(flips: float, drop: float | None, limits: CostLimits) -> list[str]:
    past = []
    if flips > limits.max_bit_flips:
        past.append(f"{flips:.2%} of the bits are not fp32's, {limits.max_bit_flips:.2%} are allowed")
    if drop is not None and drop > limits.max_mAP_drop:
        past.append(f"mAP is {drop:.4f} below fp32's, {limits.max_mAP_drop:.4f} is allowed")
    return past


def _round(value: float) -> float:
    return round(value, 6)
