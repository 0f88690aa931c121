"""Stage export: data/embed/backbone.onnx and models/<method>-<bits>/head.pt -> encoder.onnx and parity.json beside it.

A backbone that was fine-tuned with the head (backbone.pt) is exported anew, and joined in the place of the shared one.
The encoder is held against torch on the first images of the gallery, which the split has shuffled, then the query's.
With `export.precision` fp16 or int8 its backbone is then made smaller, and what that costs is measured.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from nsh.backbones import networks, weights
from nsh.config import Params, read_params
from nsh.core.contract import EncoderContract
from nsh.core.preprocess import to_input
from nsh.data.registry import open_images
from nsh.data.split import read_header, read_part
from nsh.errors import ExportError
from nsh.export import cost, parity
from nsh.export.graph import export_backbone, join_head, save, to_bytes
from nsh.export.heads import load_head
from nsh.export.quantise import shrink
from nsh.export.source import source_sha256
from nsh.export.tuned import apply_changes
from nsh.methods import HashHead
from nsh.system.command import run_stage
from nsh.system.files import read_json, sha256_bytes, sha256_file, write_json
from nsh.terminal import show_progress

RAW, SPLIT, EMBED, MODELS = Path("data/raw"), Path("data/split"), Path("data/embed"), Path("models")
SPEED = Path(".cache/nsh/export")  # beside the outputs, never in them: a measured time differs from run to run


def main() -> None:
    """Join, prove, write."""
    parser = argparse.ArgumentParser(description="Make models/<method>-<bits>/encoder.onnx of a trained head.")
    parser.add_argument("--method", required=True, help="method that trained the head, e.g. nsh")
    parser.add_argument("--bits", required=True, type=int, help="length of a code, e.g. 32")
    arguments = parser.parse_args()
    params, folder = read_params(), MODELS / f"{arguments.method}-{arguments.bits}"
    parameters = params.methods.model_dump().get(arguments.method, {})
    dim = read_json(EMBED / "embed.json")["dim"]
    head = load_head(folder / "head.pt", method=arguments.method, parameters=parameters, dim=dim, bits=arguments.bits)
    info = weights.read(RAW / "weights")
    backbone = networks.build(params.backbone.name, weights=info.path, image_size=params.backbone.image_size)
    contract = _describe(params, info, method=arguments.method, bits=arguments.bits)
    graph = onnx.load(EMBED / "backbone.onnx")
    if apply_changes(folder / "backbone.pt", backbone.network):
        graph = export_backbone(backbone, image_size=params.backbone.image_size)
        contract = _rename(contract, graph, "fine-tuned")
    encoder = join_head(graph, head, contract)
    torch.set_num_threads(params.compute.threads)
    report = parity.check(
        encoder,
        backbone=backbone,
        head=head,
        images=_gate_images(params),
        threads=params.compute.threads,
        progress=show_progress,
    )
    if params.export.precision != "fp32":
        encoder, report["quantisation"] = _shrink(encoder, graph, head, contract=contract, params=params)
    write_json(folder / "parity.json", parity.settle(report))
    save(encoder, folder / "encoder.onnx")
    print(f"{folder}: {report['bit_agreement']:.4%} of the bits are torch's on {report['images']} images; ", end="")
    print(f"logits differ by {report['max_logit_difference']} at most")


def _describe(params: Params, info: weights.WeightsInfo, *, method: str, bits: int) -> EncoderContract:
    split, header = read_header(SPLIT), read_json(EMBED / "embed.json")
    backbone_sha256 = sha256_file(EMBED / "backbone.onnx")
    if backbone_sha256 != header["backbone_sha256"]:
        raise ExportError(f"{EMBED}/backbone.onnx is not the graph that made the embeddings: run `dvc repro -f embed`")
    return EncoderContract(
        bits=bits,
        image_size=params.backbone.image_size,
        resample=params.backbone.resample,
        mean=networks.MEAN,
        std=networks.STD,
        method=method,
        backbone=params.backbone.name,
        weights=info.source,
        weights_sha256=info.sha256,
        backbone_sha256=backbone_sha256,
        data_set=split["data_set"],
        split_sha256=split["sha256"],
        source_sha256=source_sha256(),
    )


def _rename(contract: EncoderContract, graph: onnx.ModelProto, how: str) -> EncoderContract:
    """The contract of an encoder whose backbone is another graph than the one that made data/embed.

    Its embeddings are not those of data/embed, and the digest of its backbone says so: encode takes the images.
    """
    name = f"{contract.backbone} ({how})"
    return replace(contract, backbone=name, backbone_sha256=sha256_bytes(to_bytes(graph)))


def _shrink(
    encoder: onnx.ModelProto, graph: onnx.ModelProto, head: HashHead, *, contract: EncoderContract, params: Params
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The encoder of `graph` and `head` with a smaller backbone, and what that costs."""
    chosen, threads = params.export, params.compute.threads
    training = _read_images(params, _ids("train")[: chosen.calibration])
    backbone = shrink(graph, precision=chosen.precision, images=training)
    contract = _rename(contract, backbone, chosen.precision)
    smaller = join_head(backbone, head, contract)
    report = cost.judge(
        encoder,
        smaller,
        gallery=_sample("gallery", cost.GALLERY, params),
        query=_sample("query", cost.QUERY, params),
        limits=cost.Limits(chosen.max_bit_flips, chosen.max_mAP_drop),
        threads=threads,
        progress=show_progress,
    )
    speed = cost.measure_speed(encoder, smaller, images=training, threads=threads)
    sizes = {"megabytes": smaller.ByteSize() / 1e6, "megabytes_of_fp32": encoder.ByteSize() / 1e6}
    write_json(SPEED / f"{contract.method}-{contract.bits}-{chosen.precision}.json", speed | sizes)
    for name, value in (report | speed | sizes).items():
        print(f"{chosen.precision}  {name:<22}{value}")
    described: dict[str, Any] = {"precision": chosen.precision}
    if chosen.precision == "int8":
        described["calibration"] = len(training)
    return smaller, described | report


def _gate_images(params: Params) -> NDArray[np.uint8]:
    """The images of the gate: all there are, if they are fewer than it wants."""
    return _read_images(params, [*_ids("gallery"), *_ids("query")][: parity.IMAGES])


def _ids(part: str) -> list[str]:
    return read_part(SPLIT, part).ids


def _sample(part: str, count: int, params: Params) -> cost.Sample:
    rows = read_part(SPLIT, part)
    labels = None if rows.labels is None else rows.labels[:count]
    return cost.Sample(_read_images(params, rows.ids[:count]), labels)


def _read_images(params: Params, ids: list[str]) -> NDArray[np.uint8]:
    """Images as the encoder takes them, uint8 [n, S, S, 3]."""
    data_set, backbone = params.dataset, params.backbone
    images = open_images(data_set.name, raw=RAW, root=data_set.root, labels=data_set.labels)
    pixels = (to_input(images.image(name), size=backbone.image_size, resample=backbone.resample) for name in ids)
    return np.stack(list(pixels))


if __name__ == "__main__":
    run_stage(main)
