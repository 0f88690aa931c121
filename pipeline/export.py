"""Stage export: data/embed/backbone.onnx and models/<method>-<bits>/head.pt -> encoder.onnx and parity.json beside it.

The encoder is held against torch on the first images of the gallery, which the split has shuffled, then the query's.
With `export.precision` fp16 or int8 its backbone is then made smaller, and what that costs is measured.
"""

import torch

from nsh.backbones.published import open_published
from nsh.config import read_params
from nsh.data.registry import open_images
from nsh.data.split import PARTS, read_header, read_part
from nsh.export import parity
from nsh.export.graph import save
from nsh.export.heads import load_head
from nsh.export.images import SplitImages
from nsh.export.joined import describe, join, make_smaller
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.system.command import run_stage
from nsh.system.files import write_json
from nsh.terminal import show_progress, take_pair


def main() -> None:
    """Join, prove, write."""
    pair = take_pair("Make models/<method>-<bits>/encoder.onnx of a trained head.")
    params, project = read_params(), Project()
    files, embeddings, seen = project.of(pair), Embeddings(project.embed), params.backbone
    parameters, dim = params.methods.model_dump().get(pair.method, {}), embeddings.header["dim"]
    head = load_head(files.head, method=pair.method, parameters=parameters, dim=dim, bits=pair.bits)
    backbone, _ = open_published(seen.name, project.weights, image_size=seen.image_size)
    contract = describe(embeddings, read_header(project.split), pair)
    joined = join(head, backbone, changes=files.backbone, embeddings=embeddings, contract=contract)
    load = open_images(raw=project.raw, **params.dataset.model_dump(exclude={"exclude"})).image
    parts = {part: read_part(project.split, part) for part in PARTS}
    images = SplitImages(load=load, size=seen.image_size, resample=seen.resample, parts=parts)
    gate, threads = images.read_gate(), params.compute.threads
    torch.set_num_threads(threads)
    report = parity.check(
        joined.encoder, backbone=backbone, head=head, images=gate, threads=threads, progress=show_progress
    )
    encoder = joined.encoder
    if params.export.precision != "fp32":
        smaller = make_smaller(joined, images, **params.export.model_dump(), threads=threads, progress=show_progress)
        encoder, report["quantisation"] = smaller.encoder, smaller.report
        # Beside the outputs, never in them: a measured time differs from run to run.
        write_json(project.cache("export") / f"{pair.key}-{smaller.precision}.json", smaller.speed)
        print(smaller)
    write_json(files.parity, parity.settle(report))
    save(encoder, files.encoder)
    print(f"{files.model}: {parity.tell(report)}")


if __name__ == "__main__":
    run_stage(main)
