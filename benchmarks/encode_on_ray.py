"""Encoding on Ray beside one process: the same bytes, though an actor is killed with -9, and what Ray costs.

    python benchmarks/encode_on_ray.py [--encoder models/nsh_plus-32/encoder.onnx] [--images 2000]

Encodes drawn images once in this process and once on a Ray of this machine, kills the first actor after its first
shard, and compares the two folders byte by byte. Needs the extra ray.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from nsh.serving import bulk
from nsh.serving.arguments import list_images
from nsh.serving.bulk import encode_files
from nsh.serving.encoder import Encoder
from nsh.serving.engines.ray_cluster import connected
from nsh.serving.engines.ray_encoding import encode_on_ray

GOLDEN = Path(__file__).parents[1] / "tests/golden/encoder.onnx"
SHARD_ROWS = 100  # short, so that the killed actor leaves work to others


def main() -> None:
    """Measure, and exit 1 if a byte differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, default=GOLDEN)
    parser.add_argument("--images", type=int, default=2000)
    arguments = parser.parse_args()
    bulk.SHARD_ROWS = SHARD_ROWS
    encoder = Encoder(arguments.encoder, threads=1)
    with TemporaryDirectory() as folder:
        images, serial, spread = (Path(folder, name) for name in ("images", "serial", "spread"))
        draw(images, arguments.images)
        listed = list_images([str(images)])
        start = time.monotonic()
        alone = encode_files(encoder, listed, out=serial)
        print(
            f"one process, one thread    {time.monotonic() - start:7.1f} s  {len(alone.errors)} bad images", flush=True
        )
        start, killed = time.monotonic(), list[int]()
        with connected("local"):
            ready = time.monotonic()
            encode_on_ray(encoder, listed, out=spread, threads=1, progress=killing(killed))
            done = time.monotonic()
        print(
            f"Ray, one thread an actor   {done - ready:7.1f} s  after {ready - start:.1f} s to start; killed {killed}"
        )
        same = content(serial) == content(spread)
        print(f"{len(content(serial))} files of {arguments.images} images: {'equal' if same else 'DIFFERENT'}")
    sys.exit(not (same and killed))


def draw(folder: Path, count: int) -> None:
    """Write images of smooth noise; every hundredth is cut short."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(count):
        small = Image.fromarray(generator.integers(0, 256, (8, 8, 3), np.uint8))
        path = folder / f"{number:06}.jpg"
        small.resize((320, 240), Image.Resampling.BICUBIC).save(path)
        if number % 100 == 50:
            path.write_bytes(path.read_bytes()[:1000])


class killing:  # noqa: N801 - a progress, which is called like a function
    """Kills one actor when the first shard is done."""

    def __init__(self, killed: list[int]) -> None:
        self._killed = killed

    def __call__(self, iterable: Iterable[None], *, desc: str = "", total: int | None = None) -> Iterator[None]:
        """Count on."""
        for item in iterable:
            if not self._killed:
                actor = next(pid for pid in descendants(os.getpid()) if command(pid).startswith("ray::MapWorker"))
                os.kill(actor, signal.SIGKILL)
                self._killed.append(actor)
            yield item


def descendants(process: int) -> list[int]:
    """The processes that a process has begun, directly or not (Linux)."""
    children = [
        int(child) for task in Path(f"/proc/{process}/task").glob("*/children") for child in task.read_text().split()
    ]
    return children + [below for child in children for below in descendants(child)]


def command(process: int) -> str:
    """The command line of a process."""
    return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")


def content(folder: Path) -> dict[str, bytes]:
    """The files in a folder of codes."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


if __name__ == "__main__":
    main()
