"""Networks and input sizes beside each other: retrieval and cost, on labelled training images alone.

    python benchmarks/backbones.py --root CIFAR-10/train --networks mobilenet_v2 tf_efficientnet_lite2 --sizes 96 160

ROOT holds one folder of JPEGs a class; the images of a split's query part must not lie in it. Of the images drawn, a
fifth are queries, the others the gallery and what ITQ learns from. Printed are mAP@100 of the float embeddings, which
bounds codes without views, of ITQ's codes, and images a second of processor: decoding, resizing and the network.
"""

import argparse
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from nsh.backbones.published import open_published
from nsh.backbones.weights import PYPI, fetch
from nsh.core.codes import binarize, pack
from nsh.core.metrics.cosine import cosine_map
from nsh.core.metrics.evaluation import evaluate
from nsh.export.embedder import open_embedder
from nsh.export.graph import export_backbone, to_bytes
from nsh.methods.itq import Itq
from nsh.objectives.base import TrainingData
from nsh.training.loop import CachedViewLoop
from nsh.training.views import Embedder, embed_images

K, BITS, QUERIES = 100, 32, 0.2  # QUERIES: share of the images
CACHE = Path(".cache/benchmarks/backbones")  # for weights


class Drawn(NamedTuple):
    """Images in random order, the queries first."""

    root: Path
    names: list[str]  # [n], below root
    labels: NDArray[np.bool_]  # [n, classes]

    @property
    def queries(self) -> int:
        """How many of the first images are queries."""
        return round(QUERIES * len(self.names))


def main() -> None:
    """Measure every network at every size."""
    parser = argparse.ArgumentParser(description="Compare networks and input sizes on labelled training images.")
    parser.add_argument("--root", type=Path, default=Path("data/local/train"), help="one folder of JPEGs a class")
    parser.add_argument("--networks", nargs="+", default=["mobilenet_v2", "tf_efficientnet_lite2"])
    parser.add_argument("--weights", default=PYPI, help="as backbone.weights in params.yaml")
    parser.add_argument("--sizes", nargs="+", type=int, default=[96, 128, 160], help="pixels a side")
    parser.add_argument("--images", type=int, default=5000, help="drawn at random")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if not any(arguments.root.glob("*/*.jpg")):
        print(f"nothing measured: {arguments.root} has no <class>/*.jpg; name such a folder with --root")
        return
    drawn = draw(arguments.root, arguments.images)
    print(f"{len(drawn.names)} images, {drawn.queries} of them queries; mAP@{K}, ITQ at {BITS} bits")
    print(f"{'network':<28}{'pixels':>8}{'float':>8}{'ITQ':>8}{'images/CPU s':>14}", flush=True)
    for network, size in product(arguments.networks, arguments.sizes):
        embeddings, seconds = embed(drawn, network, size, arguments)
        figures = [measure_float(embeddings, drawn), measure_codes(embeddings, drawn)]
        shown = "".join(f"{figure:>8.4f}" for figure in figures)
        print(f"{network:<28}{size:>8}{shown}{len(drawn.names) / seconds:>14.1f}", flush=True)


def draw(root: Path, count: int) -> Drawn:
    """At most `count` images of a folder of classes."""
    found = sorted(path.relative_to(root).as_posix() for path in root.glob("*/*.jpg"))
    names = np.random.default_rng(0).permutation(found)[:count].tolist()
    classes = np.array([Path(name).parent.name for name in names])
    return Drawn(root, names, classes[:, None] == np.unique(classes))


def embed(drawn: Drawn, network: str, size: int, arguments: argparse.Namespace) -> tuple[NDArray[np.float32], float]:
    """Embeddings float32 [n, d] as the embed stage makes them, and the seconds of processor that they took."""
    folder = CACHE / network
    fetch(network, arguments.weights, into=folder, say=lambda line: None)
    backbone, _ = open_published(network, folder, image_size=size)
    run = open_embedder(backbone, to_bytes(export_backbone(backbone, image_size=size)), device="cpu")
    embedder = Embedder(
        load=lambda name: Image.open(drawn.root / name).convert("RGB"),
        embed=run,
        dim=backbone.dim,
        size=size,
        resample="bilinear",
        batch=16,
        workers=arguments.threads,
    )
    with tempfile.TemporaryDirectory() as temporary:
        path, start = Path(temporary) / "images.npy", time.process_time()
        embed_images(drawn.names, embedder=embedder, path=path)
        return np.load(path), time.process_time() - start


def measure_float(embeddings: NDArray[np.float32], drawn: Drawn) -> float:
    """mAP@100 by cosine."""
    split = drawn.queries
    parts = (embeddings[:split], embeddings[split:], drawn.labels[:split], drawn.labels[split:])
    return cosine_map(*parts, k=K)[f"mAP_at_{K}"]


def measure_codes(embeddings: NDArray[np.float32], drawn: Drawn) -> float:
    """mAP@100 of the codes of ITQ, which learns from the gallery."""
    split = drawn.queries
    gallery = embeddings[split:]
    data = TrainingData(features=gallery, views=np.empty((len(gallery), 0, gallery.shape[1]), np.float16))
    unused = CachedViewLoop(cache=CACHE, threads=1)
    head = Itq().fit(data, bits=BITS, seed=0, report=lambda record: None, loop=unused)
    with torch.inference_mode():
        codes = pack(binarize(head(torch.from_numpy(embeddings)).numpy()))
    parts = (codes[:split], codes[split:], drawn.labels[:split], drawn.labels[split:])
    return evaluate(*parts, bits=BITS, k=K).metrics[f"mAP_at_{K}"]


if __name__ == "__main__":
    main()
