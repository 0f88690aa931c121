"""Measures the cost of decoding and augmentation beside the network's, and the best use of threads.

    python benchmarks/embed.py                  mobilenet_v2, 96 px, 2 threads

The bare loop is the fastest way to embed on this machine: ready arrays, one single-threaded onnxruntime call per core
at once. It is compared with onnxruntime's own threads inside each call, and with the path of the stage (Pillow,
augmentation, float16, file) for clean images and for views, of grey and of coloured 32 x 32 images. The contenders take
turns in every round; ratios are medians over rounds of time per image, wall and CPU. On a busy machine use the CPU
ratios. Weights are random, which take the same time as trained ones.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nsh.backbones import networks
from nsh.export.embedder import open_embedder
from nsh.export.graph import export_backbone, to_bytes
from nsh.serving.session import open_session
from nsh.training.views import Embed, Embedder, embed_images, embed_views

BARE = "bare loop, batch 64"
VIEWS = 8


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Benchmark the embed stage's path against the bare network.")
    parser.add_argument("--backbone", default="mobilenet_v2")
    parser.add_argument("--size", type=int, default=96, help="pixels a side")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--images", type=int, default=512, help="inputs of each contender in each round")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    contenders = make_contenders(arguments)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(arguments.rounds):
        for name, run in contenders.items():
            seconds[name].append(measure(run))
    show(seconds, arguments)


def make_contenders(arguments: argparse.Namespace) -> dict[str, Callable[[], None]]:
    """Each embeds `arguments.images` inputs."""
    backbone = networks.build(arguments.backbone, weights=None, image_size=arguments.size)
    graph = to_bytes(export_backbone(backbone, image_size=arguments.size))
    embed = open_embedder(backbone, graph, device="cpu")
    session = open_session(graph, threads=arguments.threads)
    generator = np.random.default_rng(0)
    ready = generator.integers(0, 256, (arguments.images, arguments.size, arguments.size, 3), dtype=np.uint8)
    contenders: dict[str, Callable[[], None]] = {
        f"bare loop, batch {batch}": partial(share, embed, ready, batch=batch, threads=arguments.threads)
        for batch in (64, 8, 16, 32)
    }
    contenders["threads inside each call"] = partial(
        share, lambda images: session.run(None, {"image": images})[0], ready, batch=64, threads=1
    )
    for colour in ("grey", "coloured"):
        embedder = make_embedder(embed, backbone, draw(colour), arguments.threads)
        contenders[f"stage, clean {colour}"] = partial(write_images, embedder, arguments.images)
        contenders[f"stage, views {colour}"] = partial(write_views, embedder, arguments.images // VIEWS)
    return contenders


def share(embed: Embed, images: NDArray[np.uint8], *, batch: int, threads: int) -> None:
    """Embed ready arrays, one batch a call, `threads` calls at once."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda start: embed(images[start : start + batch]), range(0, len(images), batch)))


def make_embedder(embed: Embed, backbone: networks.Backbone, images: list[Image.Image], threads: int) -> Embedder:
    """The stage's own embedder, over images in memory."""
    return Embedder(
        load=lambda name: images[int(name) % len(images)],
        embed=embed,
        dim=backbone.dim,
        size=backbone.image_size,
        resample="bilinear",
        batch=64,
        workers=threads,
    )


def draw(colour: str) -> list[Image.Image]:
    """Smooth 32 x 32 images in RGB."""
    small = np.random.default_rng(1).integers(0, 256, (64, 6, 6, 3), dtype=np.uint8)
    images = [Image.fromarray(pixels).resize((32, 32), Image.Resampling.BICUBIC) for pixels in small]
    return [image.convert("L").convert("RGB") for image in images] if colour == "grey" else images


def write_images(embedder: Embedder, count: int) -> None:
    """The stage's path for clean images, to a file that vanishes."""
    with tempfile.TemporaryDirectory() as folder:
        embed_images([str(row) for row in range(count)], embedder=embedder, path=Path(folder) / "images.npy")


def write_views(embedder: Embedder, count: int) -> None:
    """The stage's path for `VIEWS` views of each image, to a file that vanishes."""
    with tempfile.TemporaryDirectory() as folder:
        ids = [str(row) for row in range(count)]
        embed_views(ids, embedder=embedder, views=VIEWS, seed=0, path=Path(folder) / "views.npy")


def measure(run: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


def show(seconds: dict[str, list[tuple[float, float]]], arguments: argparse.Namespace) -> None:
    """One line a contender."""
    print(
        f"{arguments.backbone}, {arguments.size} px, {arguments.threads} threads, {arguments.images} inputs, "
        f"{arguments.rounds} rounds; load {os.getloadavg()[0]:.1f}"
    )
    print(f"{'':<28}{'inputs/s':>10}{'inputs/CPU s':>14}{'wall ratio':>12}{'CPU ratio':>11}")
    for name, rounds in seconds.items():
        pairs = list(zip(rounds, seconds[BARE], strict=True))
        wall, processor = (statistics.median(ours[i] / bare[i] for ours, bare in pairs) for i in (0, 1))
        rates = [arguments.images / statistics.median(one[i] for one in rounds) for i in (0, 1)]
        print(f"{name:<28}{rates[0]:>10.0f}{rates[1]:>14.0f}{wall:>12.2f}{processor:>11.2f}")


if __name__ == "__main__":
    main()
