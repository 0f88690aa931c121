"""Codes and logits from stored embeddings: the encoder's head alone, checked against the codes of the whole encoder.

The embed stage ran the same backbone graph that is inside the encoder. On the CPU with one thread a call, onnxruntime
computes each image of a batch by itself, so batches of any length give the same embeddings to the bit, and the same
codes. A sample of the images proves this. Embeddings made on CUDA are rounded differently and are not used. It needs
onnx but no torch, so that encoding remains production code.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.utils
import onnxruntime as ort
from numpy.typing import NDArray
from PIL import Image

from nsh.core.codes import code_bytes
from nsh.errors import CodesError, ExportError
from nsh.serving.encoder import Encoder
from nsh.serving.session import open_session, run_batches

SAMPLE = 256  # images that run through the whole graph for comparison


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


def open_head(encoder_path: Path) -> ort.InferenceSession:
    """Open the `head_part` of an encoder file.

    Raises:
        ExportError: the file is no encoder that `nsh.export.graph.join_head` made.
    """
    return open_session(head_part(encoder_path), threads=1)


def encode_embeddings(
    encoder: Encoder, head: ort.InferenceSession, embeddings: NDArray[np.float32], *, batch: int
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Encode embeddings, float32 [n, d], to codes, uint8 [n, ceil(bits / 8)], and their logits, float32 [n, bits].

    Args:
        encoder: the encoder of the embeddings.
        head: the session from `open_head`.
        embeddings: of any number of images.
        batch: embeddings at a time.

    Raises:
        CodesError: the embeddings have another length than those of the encoder.
    """
    if embeddings.ndim != 2 or embeddings.shape[1] != encoder.dim:
        raise CodesError(
            f"found embeddings {list(embeddings.shape)}, the encoder's are [n, {encoder.dim}]: embed again"
        )
    if not len(embeddings):
        bits = encoder.contract.bits
        return np.empty((0, code_bytes(bits)), np.uint8), np.empty((0, bits), np.float32)
    codes, logits = run_batches(head, ["code", "logit"], embeddings, batch=batch)
    return codes, logits


def prove(
    encoder: Encoder,
    codes: NDArray[np.uint8],
    ids: Sequence[str],
    *,
    load: Callable[[str], Image.Image],
    seed: int,
) -> None:
    """Encode a sample of `SAMPLE` images from their pixels, and compare with `codes`.

    Args:
        encoder: the whole encoder.
        codes: uint8 [n, ceil(bits / 8)], from embeddings.
        ids: the ids of the n images.
        load: from an id to its image.
        seed: of the sample.

    Raises:
        CodesError: the numbers of codes and images differ, or a code differs; names the first such image.
    """
    if len(ids) != len(codes):
        raise CodesError(f"found embeddings of {len(codes)} images, the split has {len(ids)}: embed again")
    rows = np.random.default_rng(seed).choice(len(ids), size=min(SAMPLE, len(ids)), replace=False)
    found = encoder.encode(load(ids[row]) for row in rows)
    wrong = rows[(found != codes[rows]).any(axis=1)]
    if len(wrong):
        raise CodesError(
            f"the codes of {len(wrong)} of {len(rows)} images differ between their stored embedding and the whole "
            f"encoder, first {ids[wrong[0]]!r}: make the embeddings again with `dvc repro -f embed`"
        )
