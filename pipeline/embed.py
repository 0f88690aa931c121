"""Stage embed: params.yaml, data/raw and data/split -> data/embed: embeddings by the frozen backbone.

data/embed/ holds backbone.onnx, embed.json, train.npy, query.npy, gallery.npy and views.npy (`nsh.project.embeddings`).
"""

from functools import partial
from pathlib import Path
from typing import Any

from nsh.backbones.published import open_published
from nsh.config import read_params
from nsh.core.preprocess import PREPROCESSING
from nsh.data.registry import open_chosen
from nsh.data.split import PARTS, read_header, read_part
from nsh.export.embedder import open_embedder
from nsh.export.graph import export_backbone, to_bytes
from nsh.project.paths import Project
from nsh.system.code import code_digest
from nsh.system.command import run_stage
from nsh.system.files import sha256_bytes
from nsh.terminal import show_progress, take_no_arguments
from nsh.training.device import choose_device
from nsh.training.embed import embed_split
from nsh.training.views import Embedder


def main() -> None:
    """Embed every image of the split once, and the views of the training images."""
    params, project = read_params(), Project()
    seen, device = params.backbone, choose_device(params.compute.device)
    backbone, weights = open_published(seen.name, project.weights, image_size=seen.image_size)
    graph = to_bytes(export_backbone(backbone, image_size=seen.image_size))
    header: dict[str, Any] = {"backbone": seen.name, "weights": weights.source, "weights_sha256": weights.sha256}
    header |= {"image_size": seen.image_size, "resample": seen.resample, "dim": backbone.dim}
    header |= {"views": params.embed.views, "seed": params.embed.seed, "backbone_sha256": sha256_bytes(graph)}
    header |= {"preprocessing": PREPROCESSING, "device": device.partition(":")[0]}
    header |= {"split_sha256": read_header(project.split)["sha256"]}
    images = open_chosen(params.dataset, raw=project.raw)
    embed, batch, workers = open_embedder(backbone, graph, device=device), params.embed.batch, params.compute.threads
    size, dim = seen.image_size, backbone.dim
    load = partial(images.image, size=size)
    embedder = Embedder(
        load=load, embed=embed, dim=dim, size=size, resample=seen.resample, batch=batch, workers=workers
    )
    parts = {part: read_part(project.split, part).ids for part in PARTS}
    cache, code = project.cache("embed"), code_digest([Path(__file__)])
    embed_split(
        parts, embedder, header=header, graph=graph, code=code, cache=cache, into=project.embed, progress=show_progress
    )


if __name__ == "__main__":
    take_no_arguments(__doc__)
    run_stage(main)
