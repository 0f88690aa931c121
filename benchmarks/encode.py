"""Cost of `nsh encode` compared with a bare loop that decodes with the same pool and runs the same session.

    python benchmarks/encode.py                                   MobileNetV2, 96 px, random weights
    python benchmarks/encode.py --photos PHOTOGRAPHS --model encoder.onnx --images 5000 --rounds 3

JPEGs of 500 x 375 are cropped into a temporary folder from photographs (those of scikit-learn, unless you give a folder
of larger ones). Each contender is its own process, timed from start to end, with imports and the opening of the model;
the command also lists and hashes files, and writes manifests, codes and a header. The command is compared with the
fastest of three bare loops: in `pool` and `pool-all` a pool decodes while the main thread infers on one core or on all;
in `own` each thread of the pool decodes and infers its own batch. All take turns in every round; figures are medians
over rounds, wall and CPU time. Memory is the peak of the process; for the command also at a fifth of the images.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from PIL import Image

from nsh.core.preprocess import load_image, to_input
from nsh.serving.cores import cpu_quota
from nsh.serving.encoder import BATCH, Encoder
from nsh.serving.session import open_session

WIDTH, HEIGHT = 500, 375
COMMAND = "nsh encode"
LOOPS = ("pool", "pool-all", "own")

LAUNCHER = """
import resource, subprocess, sys, time
start = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
wall, used = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
print(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)
"""


class Cost(NamedTuple):
    """Of one run."""

    wall: float  # seconds
    cpu: float  # seconds of all threads
    memory: float  # peak MB


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Benchmark `nsh encode` against a bare loop.")
    parser.add_argument("--photos", type=Path, help="folder of photographs, 500 x 375 or larger, to crop from")
    parser.add_argument("--model", type=Path, help="an encoder.onnx; not given: MobileNetV2 with random weights, 96 px")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=cpu_quota())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loop", choices=LOOPS, help="run one bare loop over --photos, as the benchmark itself does")
    arguments = parser.parse_args()
    if arguments.loop:
        return run_loop(arguments.loop, arguments.model, arguments.photos, threads=arguments.threads)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model = arguments.model or make_encoder(folder / "encoder.onnx")
        make_jpegs(folder / "few", read_photographs(arguments.photos), arguments.images // 5)
        make_jpegs(folder / "all", read_photographs(arguments.photos), arguments.images)
        few = run_command(model, folder / "few", folder / "codes-few", threads=arguments.threads)
        contenders = make_contenders(model, folder, threads=arguments.threads)
        costs: dict[str, list[Cost]] = {name: [] for name in contenders}
        for _ in range(arguments.rounds):
            for name, run in contenders.items():
                costs[name].append(run())
    return show(costs, few, arguments)


def make_contenders(model: Path, folder: Path, *, threads: int) -> dict[str, Callable[[], Cost]]:
    """Each encodes every image of `folder / "all"`."""
    contenders: dict[str, Callable[[], Cost]] = {COMMAND: partial(run_fresh, model, folder, threads=threads)}
    for loop in LOOPS:
        command = [sys.executable, __file__, "--loop", loop, "--photos", folder / "all", "--model", model]
        contenders[loop] = partial(run_timed, [*map(str, command), "--threads", str(threads)])
    return contenders


def run_loop(loop: str, model: Path, folder: Path, *, threads: int) -> None:
    """One bare loop in this process."""
    contract = Encoder(model, threads=1).contract
    session = open_session(model, threads=threads if loop == "pool-all" else 1)
    decode = partial(decode_file, size=contract.image_size, resample=contract.resample)
    (in_own if loop == "own" else in_pool)(sorted(folder.iterdir()), session, decode=decode, threads=threads)


def decode_file(path: Path, *, size: int, resample: str) -> NDArray[np.uint8]:
    """What the encoder is given of a file."""
    return to_input(load_image(path), size=size, resample=resample)


def in_pool(
    paths: list[Path],
    session: ort.InferenceSession,
    *,
    decode: Callable[[Path], NDArray[np.uint8]],
    threads: int,
) -> None:
    """The pool decodes ahead, the main thread infers."""
    with ThreadPoolExecutor(threads) as pool:
        decoded = pool.map(decode, paths)
        while batch := list(islice(decoded, BATCH)):
            session.run(["code"], {"image": np.stack(batch)})


def in_own(
    paths: list[Path],
    session: ort.InferenceSession,
    *,
    decode: Callable[[Path], NDArray[np.uint8]],
    threads: int,
) -> None:
    """Each thread of the pool decodes and infers its own batch."""

    def work(start: int) -> None:
        session.run(["code"], {"image": np.stack([decode(path) for path in paths[start : start + BATCH]])})

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(0, len(paths), BATCH)))


def run_fresh(model: Path, folder: Path, *, threads: int) -> Cost:
    """Cost of the command with a new output folder."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        return run_command(model, folder / "all", Path(out), threads=threads)


def run_command(model: Path, images: Path, out: Path, *, threads: int) -> Cost:
    """Cost of `nsh encode`."""
    command = [sys.executable, "-m", "nsh.cli", "encode", str(images), "--model", str(model), "--out", str(out)]
    return run_timed([*command, "--threads", str(threads)])


def run_timed(command: list[str]) -> Cost:
    """Cost of a whole process; a small one starts it, as a child's peak memory begins with its parent's."""
    output = subprocess.run([sys.executable, "-c", LAUNCHER, *command], check=True, capture_output=True, text=True)
    return Cost(*(float(word) for word in output.stdout.split()))


def read_photographs(folder: Path | None) -> list[Image.Image]:
    """Photographs of at least 500 x 375; smaller ones are enlarged."""
    if folder is None:
        from sklearn.datasets import load_sample_images

        return [Image.fromarray(pixels) for pixels in load_sample_images().images]
    return [enlarge(load_image(path)) for path in sorted(folder.rglob("*.jpg"))]


def enlarge(photograph: Image.Image) -> Image.Image:
    """To at least 500 x 375, a little more on one side at least, so that crops differ."""
    scale = max(1.1 * WIDTH / photograph.width, 1.1 * HEIGHT / photograph.height, 1.0)
    return photograph.resize((round(photograph.width * scale), round(photograph.height * scale)))


def make_jpegs(folder: Path, photographs: list[Image.Image], count: int) -> None:
    """Write crops, each of another place and quality."""
    folder.mkdir()
    for number, (photograph, place) in enumerate(places(photographs, count)):
        left, top = place
        crop = photograph.crop((left, top, left + WIDTH, top + HEIGHT))
        crop.save(folder / f"{number:05}.jpg", quality=80 + number % 15)


def places(photographs: list[Image.Image], count: int) -> Iterator[tuple[Image.Image, tuple[int, int]]]:
    """Photographs in turn, each with the corner of a crop."""
    generator = np.random.default_rng(0)
    for number in range(count):
        photograph = photographs[number % len(photographs)]
        left = int(generator.integers(0, photograph.width - WIDTH + 1))
        yield photograph, (left, int(generator.integers(0, photograph.height - HEIGHT + 1)))


def make_encoder(path: Path) -> Path:
    """MobileNetV2 with random weights, which take the same time as trained ones; needs the extra `train`."""
    import torch

    from nsh.backbones import networks
    from nsh.core.contract import EncoderContract
    from nsh.export import graph

    backbone = networks.build("mobilenet_v2", weights=None, image_size=96)
    contract = EncoderContract(
        bits=64,
        image_size=96,
        resample="bilinear",
        mean=networks.MEAN,
        std=networks.STD,
        method="none",
        backbone="mobilenet_v2",
        weights="none",
        weights_sha256="",
        backbone_sha256="",
        data_set="none",
        split_sha256="",
        source_sha256="",
        libraries="",
    )
    head = torch.nn.Linear(backbone.dim, 64).eval()
    graph.save(graph.join_head(graph.export_backbone(backbone, image_size=96), head, contract), path)
    return path


def show(costs: dict[str, list[Cost]], few: Cost, arguments: argparse.Namespace) -> None:
    """Print medians, the ratio to the fastest bare loop, and memory."""
    count = arguments.images
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{count} JPEGs {WIDTH} x {HEIGHT}, {arguments.threads} threads, {arguments.rounds} rounds, load {load}")
    rates = {name: statistics.median(count / cost.wall for cost in all_of) for name, all_of in costs.items()}
    for name, all_of in costs.items():
        milliseconds = statistics.median(cost.cpu / count * 1e3 for cost in all_of)
        print(f"{name:<12} {rates[name]:8.1f} images/s   {milliseconds:6.2f} ms of CPU an image")
    best = max((name for name in rates if name != COMMAND), key=lambda name: rates[name])
    paired = [bare.wall / ours.wall for ours, bare in zip(costs[COMMAND], costs[best], strict=True)]
    cpu = [bare.cpu / ours.cpu for ours, bare in zip(costs[COMMAND], costs[best], strict=True)]
    print(
        f"{COMMAND} runs at {statistics.median(paired):.1%} of the fastest bare loop ({best}), "
        f"by CPU time {statistics.median(cpu):.1%}; target 90%"
    )
    most = max(cost.memory for cost in costs[COMMAND])
    print(f"peak memory: {few.memory:.0f} MB at {count // 5} images, {most:.0f} MB at {count}")


if __name__ == "__main__":
    main()
