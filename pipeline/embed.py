"""Stage embed: params.yaml, data/raw and data/split -> data/embed: what the frozen backbone sees.

data/embed/ holds backbone.onnx, embed.json (what it was made with), train.npy, query.npy and gallery.npy, float32
[n, d] in the order of the split, and views.npy, float16 [n_train, V, d] (see `nsh.training.views`).
"""

import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from nsh.backbones import networks, weights
from nsh.config import Params, read_params
from nsh.data.registry import open_images
from nsh.data.split import PARTS, read_header, read_part
from nsh.export.embedder import open_embedder
from nsh.export.graph import export_backbone, to_bytes
from nsh.export.source import source_sha256
from nsh.system.command import run_stage
from nsh.system.files import sha256_bytes, write_json
from nsh.system.folders import atomic_folder
from nsh.terminal import show_progress, take_no_arguments
from nsh.training.device import choose_device
from nsh.training.views import Feed, copy_rows, embed_images, embed_views

RAW, SPLIT, EMBED, CACHE = Path("data/raw"), Path("data/split"), Path("data/embed"), Path(".cache/nsh/embed")


def main() -> None:
    """Embed every image of the split once, and the views of the training images."""
    params, info = read_params(), weights.read(RAW / "weights")
    size, device = params.backbone.image_size, choose_device(params.compute.device)
    backbone = networks.build(params.backbone.name, weights=info.path, image_size=size)
    graph = to_bytes(export_backbone(backbone, image_size=size))
    header = _describe(params, info, backbone.dim) | {
        "backbone_sha256": sha256_bytes(graph),
        "device": device.partition(":")[0],
        "split_sha256": read_header(SPLIT)["sha256"],
    }
    feed = _open_feed(params, backbone, graph, device=device)
    parts = {part: read_part(SPLIT, part).ids for part in PARTS}
    work = CACHE / _fingerprint(header, params.embed.batch)
    _embed(parts, feed, params, work)
    _write(parts, work, header, graph)
    shutil.rmtree(work)


def _describe(params: Params, info: weights.WeightsInfo, dim: int) -> dict[str, Any]:
    """What the embeddings depend on and later stages ask for; not the threads, which change no byte."""
    return {
        "backbone": params.backbone.name,
        "weights": info.source,
        "weights_sha256": info.sha256,
        "image_size": params.backbone.image_size,
        "resample": params.backbone.resample,
        "dim": dim,
        "views": params.embed.views,
        "seed": params.embed.seed,
    }


def _open_feed(params: Params, backbone: networks.Backbone, graph: bytes, *, device: str) -> Feed:
    data_set = params.dataset
    images = open_images(data_set.name, raw=RAW, root=data_set.root, labels=data_set.labels)
    return Feed(
        load=images.image,
        embed=open_embedder(backbone, graph, device=device),
        dim=backbone.dim,
        size=backbone.image_size,
        resample=params.backbone.resample,
        batch=params.embed.batch,
        workers=params.compute.threads,
    )


def _fingerprint(header: dict[str, Any], batch: int) -> str:
    """Names the partial state: another header, batch or code starts afresh."""
    return hashlib.sha256(json.dumps([header, batch, source_sha256()]).encode()).hexdigest()[:16]


def _distinct(parts: dict[str, list[str]]) -> list[str]:
    return list(dict.fromkeys(name for part in parts.values() for name in part))


def _embed(parts: dict[str, list[str]], feed: Feed, params: Params, work: Path) -> None:
    ids, views = _distinct(parts), params.embed.views
    start = time.monotonic()
    embed_images(ids, feed=feed, path=work / "images.npy", progress=show_progress)
    middle = time.monotonic()
    embed_views(
        parts["train"], feed=feed, views=views, seed=params.embed.seed, path=work / "views.npy", progress=show_progress
    )
    for what, count, seconds in (
        ("images", len(ids), middle - start),
        ("views", len(parts["train"]) * views, time.monotonic() - middle),
    ):
        print(f"embed: {count} {what} in {seconds:.1f} s, {count / seconds:.0f} a second")


def _write(parts: dict[str, list[str]], work: Path, header: dict[str, Any], graph: bytes) -> None:
    rows = {name: row for row, name in enumerate(_distinct(parts))}
    with atomic_folder(EMBED) as folder:
        for part, ids in parts.items():
            copy_rows(work / "images.npy", np.array([rows[name] for name in ids]), path=folder / f"{part}.npy")
        (folder / "backbone.onnx").write_bytes(graph)
        write_json(folder / "embed.json", header)
        shutil.move(work / "views.npy", folder / "views.npy")


if __name__ == "__main__":
    take_no_arguments(__doc__)
    run_stage(main)
