"""Measures what an encoder's codes look like on held-out images, and adds it to the file (`nsh.core.reference`).

Held out are queries: no part of training or gallery holds them. Where the embed stage has run the encoder's own
backbone, the codes come from its embeddings by torch's head, whose bits the parity check has compared with the
encoder's. Knows no data set.
"""

from collections.abc import Callable

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from nsh.core.codes import binarize, pack
from nsh.core.contract import METADATA_KEY, EncoderContract
from nsh.core.reference import ANCHORS, REFERENCE_KEY, profile
from nsh.export.graph import to_bytes
from nsh.export.images import SplitImages
from nsh.methods import HashHead
from nsh.project.embeddings import Embeddings
from nsh.serving.session import open_session, run_batches
from nsh.system.progress import Progress, no_progress

HELD_OUT = 2000
"""Queries to encode, at most: then the reference's own chance is a tenth of that of 200 recent images."""

_BATCH = 32

Encode = Callable[[str, int], NDArray[np.uint8]]
"""Codes uint8 [n, ceil(bits / 8)] of the first images of a part, so many at most."""


def add_reference(
    encoder: onnx.ModelProto,
    head: HashHead,
    *,
    embeddings: Embeddings,
    images: SplitImages,
    threads: int,
    progress: Progress = no_progress,
) -> None:
    """Add the reference profile to the metadata of an encoder, unless there are too few queries for one.

    Args:
        encoder: from `nsh.export.graph.join_head`.
        head: its head.
        embeddings: of the split.
        images: of the split; read if the encoder's backbone did not make the embeddings.
        threads: onnxruntime's threads.
        progress: shows the batches.

    Raises:
        DataError: an image can no longer be read.
    """
    (text,) = (entry.value for entry in encoder.metadata_props if entry.key == METADATA_KEY)
    contract = EncoderContract.from_json(text)
    if embeddings.are_of(contract, split_sha256=contract.split_sha256):
        encode = _from_embeddings(head, embeddings)
    else:
        encode = _from_images(encoder, images, threads=threads, progress=progress)
    made = profile(encode("query", HELD_OUT), encode("gallery", ANCHORS), bits=contract.bits)
    if made is not None:
        encoder.metadata_props.add(key=REFERENCE_KEY, value=made.to_json())


def _from_embeddings(head: HashHead, embeddings: Embeddings) -> Encode:
    def encode(part: str, count: int) -> NDArray[np.uint8]:
        with torch.inference_mode():
            logits = head(torch.from_numpy(embeddings.read(part)[:count].copy()))
        return pack(binarize(logits.numpy()))

    return encode


def _from_images(encoder: onnx.ModelProto, images: SplitImages, *, threads: int, progress: Progress) -> Encode:
    session = open_session(to_bytes(encoder), threads=threads)

    def encode(part: str, count: int) -> NDArray[np.uint8]:
        sample = images.sample(part, count).images
        (codes,) = run_batches(session, ["code"], sample, batch=_BATCH, progress=progress, desc=f"codes of {part}")
        return codes

    return encode
