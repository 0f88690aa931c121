"""Cost of `nsh encode` compared with a bare loop that decodes with the same pool and runs the same session.

    python benchmarks/encode.py                                   MobileNetV2, 96 px, random weights
    python benchmarks/encode.py --photos PHOTOGRAPHS --model encoder.onnx --images 5000 --rounds 3
    python benchmarks/encode.py --photos PHOTOGRAPHS --large --images 60

JPEGs of 500 x 375, with `--large` of 4000 x 3000, are cropped into a temporary folder from photographs (those of
scikit-learn, unless you give a folder); smaller photographs are enlarged. Each contender is its own process, timed from
start to end, with imports and the opening of the model; the command also lists and hashes files, and writes manifests,
codes and a header. The command is compared with the fastest of three bare loops: in `pool` and `pool-all` a pool
decodes while the main thread infers on one core or on all; in `own` each thread of the pool decodes and infers its own
batch. All take turns in every round; figures are medians over rounds, wall and CPU time. Memory is the peak of the
process; for the command also at a fifth of the images.

`--large` also compares `own`, within one process, with `whole`, which decodes all pixels of every JPEG.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from PIL import Image

from nsh.core.preprocess import ImageSource, load_image, load_input, to_input
from nsh.serving.cores import cpu_quota
from nsh.serving.encoder import BATCH, Encoder
from nsh.serving.session import open_session

SMALL, LARGE = (500, 375), (4000, 3000)  # width and height
COMMAND, WHOLE = "nsh encode", "whole"
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
    parser.add_argument("--photos", type=Path, help="folder of photographs to crop from, .jpg")
    parser.add_argument("--large", action="store_true", help="crops of 12 megapixels")
    parser.add_argument("--model", type=Path, help="an encoder.onnx; not given: MobileNetV2 with random weights, 96 px")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=cpu_quota())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loop", choices=LOOPS, help="run one bare loop over --photos, as the benchmark itself does")
    arguments = parser.parse_args()
    if arguments.loop:
        return open_loop(arguments.loop, arguments.model, arguments.photos, threads=arguments.threads)()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model = arguments.model or make_encoder(folder / "encoder.onnx")
        size, photographs = LARGE if arguments.large else SMALL, find_photographs(arguments.photos)
        make_jpegs(folder / "few", photographs, arguments.images // 5, size=size)
        make_jpegs(folder / "all", photographs, arguments.images, size=size)
        few = run_command(model, folder / "few", folder / "codes-few", threads=arguments.threads)
        contenders = make_contenders(model, folder, threads=arguments.threads)
        costs: dict[str, list[Cost]] = {name: [] for name in contenders}
        for _ in range(arguments.rounds):
            for name, run in contenders.items():
                costs[name].append(run())
        if arguments.large:
            show_scales(model, folder / "all", threads=arguments.threads, rounds=arguments.rounds)
    return show(costs, few, arguments)


def make_contenders(model: Path, folder: Path, *, threads: int) -> dict[str, Callable[[], Cost]]:
    """Each encodes every image of `folder / "all"`."""
    contenders: dict[str, Callable[[], Cost]] = {COMMAND: partial(run_fresh, model, folder, threads=threads)}
    for loop in LOOPS:
        command = [sys.executable, __file__, "--loop", loop, "--photos", folder / "all", "--model", model]
        contenders[loop] = partial(run_timed, [*map(str, command), "--threads", str(threads)])
    return contenders


def open_loop(loop: str, model: Path, folder: Path, *, threads: int) -> Callable[[], None]:
    """One bare loop, ready to run in this process."""
    contract = Encoder(model, threads=1).contract
    session = open_session(model, threads=threads if loop == "pool-all" else 1)
    read = decode_whole if loop == WHOLE else load_input  # as the encoder does
    decode = partial(read, size=contract.image_size, resample=contract.resample)
    run = in_own if loop in ("own", WHOLE) else in_pool
    return partial(run, sorted(folder.iterdir()), session, decode=decode, threads=threads)


def decode_whole(path: Path, *, size: int, resample: str) -> NDArray[np.uint8]:
    """What the encoder would be given of all pixels of a file."""
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


def find_photographs(folder: Path | None) -> Sequence[ImageSource]:
    """Those in a folder, not yet decoded, or scikit-learn's."""
    if folder is None:
        from sklearn.datasets import load_sample_images

        return load_sample_images().images  # type: ignore[no-any-return]
    found = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in (".jpg", ".jpeg")]
    return found or sys.exit(f"{folder} has no .jpg")


def make_jpegs(folder: Path, photographs: Sequence[ImageSource], count: int, *, size: tuple[int, int]) -> None:
    """Write crops of `size` = (width, height), each of another place and quality."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(count):
        photograph = enlarge(load_image(photographs[number % len(photographs)]), size)
        left = int(generator.integers(0, photograph.width - size[0] + 1))
        top = int(generator.integers(0, photograph.height - size[1] + 1))
        crop = photograph.crop((left, top, left + size[0], top + size[1]))
        crop.save(folder / f"{number:05}.jpg", quality=80 + number % 15)


def enlarge(photograph: Image.Image, size: tuple[int, int]) -> Image.Image:
    """To at least `size`, a little more on one side at least, so that crops differ."""
    scale = max(1.1 * size[0] / photograph.width, 1.1 * size[1] / photograph.height, 1.0)
    return photograph.resize((round(photograph.width * scale), round(photograph.height * scale)))


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
        mean=backbone.mean,
        std=backbone.std,
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
    width, height = LARGE if arguments.large else SMALL
    print(f"{count} JPEGs {width} x {height}, {arguments.threads} threads, {arguments.rounds} rounds, load {load}")
    rates = {name: statistics.median(count / cost.wall for cost in all_of) for name, all_of in costs.items()}
    for name, all_of in costs.items():
        milliseconds = statistics.median(cost.cpu / count * 1e3 for cost in all_of)
        print(f"{name:<12} {rates[name]:8.1f} images/s   {milliseconds:6.2f} ms of CPU an image")
    best = max(LOOPS, key=lambda name: rates[name])
    paired = [bare.wall / ours.wall for ours, bare in zip(costs[COMMAND], costs[best], strict=True)]
    cpu = [bare.cpu / ours.cpu for ours, bare in zip(costs[COMMAND], costs[best], strict=True)]
    print(
        f"{COMMAND} runs at {statistics.median(paired):.1%} of the fastest bare loop ({best}), "
        f"by CPU time {statistics.median(cpu):.1%}; target 90%"
    )
    most = max(cost.memory for cost in costs[COMMAND])
    print(f"peak memory: {few.memory:.0f} MB at {count // 5} images, {most:.0f} MB at {count}")


def show_scales(model: Path, folder: Path, *, threads: int, rounds: int) -> None:
    """Print how many times as many images a second `own` encodes as `whole` does."""
    reduced, whole = (
        np.array(costs) for costs in zip(*(time_scales(model, folder, threads) for _ in range(rounds)), strict=True)
    )
    wall, cpu = np.median(whole / reduced, axis=0)
    print(f"reduced decoding: {wall:.1f} x the images/s of decoding all pixels, by CPU time {cpu:.1f} x; target 5 x")


def time_scales(model: Path, folder: Path, threads: int) -> list[tuple[float, float]]:
    """Seconds of wall and of CPU time of `own` and of `whole`."""
    times = []
    for loop in ("own", WHOLE):
        run = open_loop(loop, model, folder, threads=threads)
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return times


if __name__ == "__main__":
    main()
