"""Export: the backbone's graph and the head of a pair -> encoder.onnx, with its reference profile, and parity.json.

The encoder is held against torch on the first images of the gallery, which the split has shuffled, then the query's.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from nsh.backbones.published import open_published
from nsh.data.registry import Choice, open_chosen
from nsh.data.split import PARTS, read_header, read_part
from nsh.export import parity
from nsh.export.graph import save
from nsh.export.heads import load_head
from nsh.export.images import SplitImages
from nsh.export.joined import SmallerEncoder, describe, join, make_smaller
from nsh.export.reference import add_reference
from nsh.project.embeddings import Embeddings
from nsh.project.paths import PairFiles, Project
from nsh.system.files import write_json
from nsh.system.progress import Progress, no_progress


def export_encoder(
    project: Project,
    files: PairFiles,
    *,
    parameters: Mapping[str, Any],
    data_set: Choice,
    smaller: Mapping[str, Any] | None = None,
    threads: int,
    progress: Progress = no_progress,
) -> SmallerEncoder | None:
    """Join backbone and head, prove the encoder, and write it.

    Args:
        project: its images, weights, split and embeddings are read.
        files: of the pair; its head is read, encoder and parity are written.
        parameters: the method's.
        data_set: params.yaml's block `dataset`.
        smaller: settings of `nsh.export.joined.make_smaller`; None keeps the backbone in float32.
        threads: of torch and onnxruntime.
        progress: shows the batches.

    Returns:
        What less precision costs and saves, None in float32.

    Raises:
        ExportError: the encoder cannot be made of these, or does not give torch's codes; nothing is written.
        DataError: the embeddings are not there, or an image cannot be read any more.
    """
    embeddings, pair = Embeddings(project.embed), files.pair
    header = embeddings.header
    head = load_head(files.head, method=pair.method, parameters=parameters, dim=header["dim"], bits=pair.bits)
    backbone, _ = open_published(header["backbone"], project.weights, image_size=header["image_size"])
    contract = describe(embeddings, read_header(project.split), pair)
    joined = join(head, backbone, changes=files.backbone, embeddings=embeddings, contract=contract)
    images = _open_split(project, data_set, size=header["image_size"], resample=header["resample"])
    torch.set_num_threads(threads)
    measured: dict[str, Any] = {"threads": threads, "progress": progress}
    report = parity.check(joined.encoder, backbone=backbone, head=head, images=images.read_gate(), **measured)
    made = None if smaller is None else make_smaller(joined, images, **smaller, **measured)
    if made is not None:
        report["quantisation"] = made.report
    encoder = joined.encoder if made is None else made.encoder
    add_reference(encoder, joined.head, embeddings=embeddings, images=images, **measured)
    write_json(files.parity, parity.settle(report))
    save(encoder, files.encoder)
    print(f"{files.model}: {parity.tell(report)}")
    return made


def _open_split(project: Project, data_set: Choice, *, size: int, resample: str) -> SplitImages:
    parts = {part: read_part(project.split, part) for part in PARTS}
    load = partial(open_chosen(data_set, raw=project.raw).image, size=size)
    return SplitImages(load=load, size=size, resample=resample, parts=parts)
