"""The loss of an encoder of less precision in mAP and bits, and its gain in speed.

Without labels the images that are similar to a query are those that the float32 backbone embeds nearest to it. The
result is written for the registry, which refuses encoders that lose more mAP than is allowed. Here none is refused, so
that it can be examined. Bits that flip are only warned of: those near zero flip and cost nothing. Speed has no limit,
because it differs from run to run. Reads no file.
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
from nsh.core.metrics.estimate import find_related
from nsh.export.graph import to_bytes
from nsh.export.parity import require_packed
from nsh.serving.session import open_session, run_batches
from nsh.system.progress import Progress, no_progress

GALLERY, QUERY = 2000, 500  # images of the sample
SIMILAR = 0.01  # share of the gallery that counts as similar to a query without labels
BATCH = 32
ROUNDS = {1: 15, 32: 5}  # of speed, by batch size


@dataclass(frozen=True)
class Sample:
    """Images of a part of the split, uint8 [n, S, S, 3], and their labels, bool [n, classes], if there are any."""

    images: NDArray[np.uint8]
    labels: NDArray[np.bool_] | None


@dataclass(frozen=True)
class CostLimits:
    """How much an encoder may lose against float32."""

    max_mAP_drop: float  # noqa: N815 - as in params.yaml and the metrics; an encoder that loses more is refused
    warn_bit_flips: float  # share of all bits; more are warned of


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
        For parity.json: `bit_flips`, share of the bits of all images; `mAP_drop`, over the whole gallery of the sample,
        by `relevance`: labels or neighbours; `warnings` and `past_limits`, a sentence for each exceeded limit.

    Raises:
        ExportError: a logit of the smaller encoder is not finite.
    """
    images = np.concatenate([gallery.images, query.images])
    before, embeddings = _encode(reference, images, threads=threads, progress=progress)
    after, _ = _encode(smaller, images, threads=threads, progress=progress)
    bits, count = smaller.graph.output[1].type.tensor_type.shape.dim[1].dim_value, len(gallery.images)
    if query.labels is None or gallery.labels is None:
        relevance, labels = "neighbours", find_similar(embeddings[count:], embeddings[:count])
    else:
        relevance, labels = "labels", (query.labels, gallery.labels)
    of_fp32, found = (
        evaluate(codes[count:], codes[:count], *labels, bits=bits, k=count, threads=threads).metrics[f"mAP_at_{count}"]
        for codes in (before, after)
    )
    flips, drop = float(np.mean(unpack(before, bits=bits) != unpack(after, bits=bits))), of_fp32 - found
    return {
        "images": len(images),
        "relevance": relevance,
        "mAP_of_fp32": _round(of_fp32),
        "mAP_drop": _round(drop),
        "max_mAP_drop": limits.max_mAP_drop,
        "bit_flips": _round(flips),
        "warn_bit_flips": limits.warn_bit_flips,
        "warnings": _exceeded(flips, limits.warn_bit_flips, "{:.2%} of the bits are not fp32's, usual are {:.2%}"),
        "past_limits": _exceeded(drop, limits.max_mAP_drop, "mAP is {:.4f} below fp32's, {:.4f} is allowed"),
    }


def find_similar(
    query: NDArray[np.float32], gallery: NDArray[np.float32]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Labels that stand in for those that are missing: each query is a class of its own.

    Args:
        query: embeddings, float32 [queries, d].
        gallery: embeddings, float32 [n, d].

    Returns:
        The labels bool [queries, queries] of the queries, and bool [n, queries] of the gallery, where the `SIMILAR`
        share of the gallery that is nearest to a query by cosine has its class.
    """
    related = np.unpackbits(find_related(query, gallery, share=SIMILAR), axis=1, count=len(gallery))
    return np.eye(len(query), dtype=bool), related.T.astype(bool)


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
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Codes and embeddings."""
    session = open_session(to_bytes(model), threads=threads)
    codes, logits, embeddings = run_batches(
        session, ["code", "logit", "embedding"], images, batch=BATCH, progress=progress, desc="cost of precision"
    )
    require_packed(codes, logits, batch=BATCH)
    return codes, embeddings


def _exceeded(found: float, limit: float, sentence: str) -> list[str]:
    return [sentence.format(found, limit)] if found > limit else []


def _round(value: float) -> float:
    return round(value, 6)
