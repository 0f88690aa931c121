"""Joins a project's backbone and a trained head to an encoder, in float32 or less precision. Reads no image.

A backbone that was fine-tuned with the head is exported again and replaces the one that made the embeddings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch

from nsh.backbones.classifiers import normalisation
from nsh.backbones.finetuned import apply_changes
from nsh.backbones.networks import Backbone
from nsh.core.contract import EncoderContract
from nsh.core.preprocess import PREPROCESSING
from nsh.errors import ExportError
from nsh.export import cost
from nsh.export.graph import export_backbone, join_head, to_bytes
from nsh.export.images import SplitImages
from nsh.export.quantise import shrink
from nsh.methods import HashHead
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Pair
from nsh.system.code import code_digest
from nsh.system.files import sha256_bytes
from nsh.system.progress import Progress, no_progress

LIBRARIES = (torch, onnx, onnxruntime)


@dataclass(frozen=True, kw_only=True)
class JoinedEncoder:
    """An encoder and its parts.

    Attributes:
        encoder: the whole graph.
        graph: the backbone's graph in it.
        head: from embeddings to logits.
        contract: the encoder's metadata.
    """

    encoder: onnx.ModelProto
    graph: onnx.ModelProto
    head: HashHead
    contract: EncoderContract


@dataclass(frozen=True, kw_only=True)
class SmallerEncoder:
    """An encoder of less precision.

    Attributes:
        encoder: the whole graph.
        precision: "fp16" or "int8".
        calibrated: the number of images for calibration.
        cost: from `nsh.export.cost.judge`.
        speed: from `nsh.export.cost.measure_speed`, and sizes in megabytes; they differ from run to run.
    """

    encoder: onnx.ModelProto
    precision: str
    calibrated: int
    cost: dict[str, Any]
    speed: dict[str, float]

    @property
    def report(self) -> dict[str, Any]:
        """The entry in parity.json."""
        calibration = {"calibration": self.calibrated} if self.precision == "int8" else {}
        return {"precision": self.precision, **calibration, **self.cost}

    def __str__(self) -> str:
        return "\n".join(f"{self.precision}  {name:<22}{value}" for name, value in (self.cost | self.speed).items())


def describe(embeddings: Embeddings, split: Mapping[str, Any], pair: Pair) -> EncoderContract:
    """The contract of an encoder whose backbone is the graph that made the embeddings.

    Args:
        embeddings: of the split.
        split: its header.
        pair: the head's method and code length.

    Raises:
        ExportError: the graph beside the embeddings has not made them.
        DataError: there are no embeddings, or they were made with another version of the preprocessing.
    """
    embeddings.require(preprocessing=PREPROCESSING)
    header = embeddings.header
    if not embeddings.has_graph(header["backbone_sha256"]):
        raise ExportError(f"{embeddings.graph} is not the graph that made the embeddings: run `dvc repro -f embed`")
    mean, std = normalisation(header["backbone"])
    same = ("image_size", "resample", "backbone", "weights", "weights_sha256", "backbone_sha256")
    return EncoderContract(
        bits=pair.bits,
        method=pair.method,
        mean=mean,
        std=std,
        data_set=split["data_set"],
        split_sha256=split["sha256"],
        source_sha256=code_digest([__name__, f"nsh.methods.{pair.method}"]),
        libraries=", ".join(f"{library.__name__} {library.__version__.partition('+')[0]}" for library in LIBRARIES),
        **{name: header[name] for name in same},
    )


def join(
    head: HashHead, backbone: Backbone, *, changes: Path, embeddings: Embeddings, contract: EncoderContract
) -> JoinedEncoder:
    """Join a head with the backbone it was trained on.

    Args:
        head: from embeddings to logits.
        backbone: with the published weights; the changes are applied to it.
        changes: the file of what fine-tuning changed in it (see `nsh.backbones.finetuned`).
        embeddings: their graph is the exported published backbone.
        contract: see `describe`.

    Raises:
        ExportError: the head or the changes do not fit the backbone, or cannot be expressed in ONNX.
    """
    graph, contract = onnx.load(embeddings.graph), replace(contract, nested=head.nested)
    if apply_changes(changes, backbone.network):
        graph = export_backbone(backbone, image_size=backbone.image_size)
        contract = _rename(contract, graph, "fine-tuned")
    return JoinedEncoder(encoder=join_head(graph, head, contract), graph=graph, head=head, contract=contract)


def make_smaller(
    joined: JoinedEncoder,
    images: SplitImages,
    *,
    precision: str,
    calibration: int,
    max_mAP_drop: float,
    warn_bit_flips: float,
    threads: int,
    progress: Progress = no_progress,
) -> SmallerEncoder:
    """Join the same head with a backbone of less precision, and measure the loss.

    Args:
        joined: the float32 encoder.
        images: of the split.
        precision: "fp16" or "int8".
        calibration: the number of training images for calibration and for measuring the speed.
        max_mAP_drop: by how much the mAP may be lower than float32's.
        warn_bit_flips: the share of bits that usually differ from float32's.
        threads: onnxruntime's threads.
        progress: shows the batches.

    Raises:
        ExportError: onnxruntime cannot convert this backbone, or the result gives logits that are not finite.
        DataError: an image can no longer be read.
    """
    training = images.read(images.parts["train"].ids[:calibration])
    backbone = shrink(joined.graph, precision=precision, images=training)
    encoder = join_head(backbone, joined.head, _rename(joined.contract, backbone, precision))
    limits = cost.CostLimits(max_mAP_drop, warn_bit_flips)
    gallery, query = images.sample("gallery", cost.GALLERY), images.sample("query", cost.QUERY)
    found = cost.judge(
        joined.encoder, encoder, gallery=gallery, query=query, limits=limits, threads=threads, progress=progress
    )
    speed = cost.measure_speed(joined.encoder, encoder, images=training, threads=threads)
    speed |= {"megabytes": encoder.ByteSize() / 1e6, "megabytes_of_fp32": joined.encoder.ByteSize() / 1e6}
    return SmallerEncoder(encoder=encoder, precision=precision, calibrated=len(training), cost=found, speed=speed)


def _rename(contract: EncoderContract, graph: onnx.ModelProto, how: str) -> EncoderContract:
    """The contract of an encoder whose backbone is not the graph that made the embeddings.

    The digest of its backbone differs, so that the stage encode uses the images and not the stored embeddings.
    """
    name = f"{contract.backbone} ({how})"
    return replace(contract, backbone=name, backbone_sha256=sha256_bytes(to_bytes(graph)))
