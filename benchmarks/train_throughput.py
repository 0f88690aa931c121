"""Measures whether the input pipeline of fine-tuning keeps the network busy: images a second, alone and together.

    python benchmarks/train_throughput.py                                              mobilenet_v2, 96 px, a CPU
    python benchmarks/train_throughput.py --model resnet50 --size 224 --batch 128 --images 12800 --precision bf16

Four contenders take turns in every round. `augmentation` makes two views of every image, as the loop does. `network`
does forward, backward and Adam on random pixels that are already on the device, with NSH at 32 bits as the objective.
`whole` is the loop of the train stage, without its work after an epoch (a checkpoint, and an evaluation of at most 512
images). `Pillow` makes views with `nsh.training.augment`, in as many threads as torch has, as an earlier loop did. An
image is two views. The first batch warms up and does not count. Figures are medians over rounds, ratios are of the same
round; on a busy CPU use the ratios of processor time. Weights are random and originals are smooth noise, which take the
same time as real ones.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from nsh.backbones import networks
from nsh.backbones.pixels import ImageToEmbedding
from nsh.config import read_params
from nsh.methods import Schedule, TrainingData, create
from nsh.system.progress import no_progress
from nsh.training.augment import augment, view_generator
from nsh.training.device import choose_device
from nsh.training.finetune.fabric import open_fabric
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.images import TrainingImages
from nsh.training.finetune.loop import FineTuningLoop
from nsh.training.finetune.module import FineTuning
from nsh.training.finetune.recipe import Recipe
from nsh.training.finetune.state import FineTuningState
from nsh.training.reproducible import reproducible

TARGET = 0.85
BITS = 32
Rates = NDArray[np.float64]
"""Of wall and of processor time."""


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments()
    with reproducible(torch.get_num_threads()), tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, Path(folder))
        contenders: dict[str, Callable[[int], Rates]] = {
            "augmentation": bench.augment,
            "network": bench.train_network,
            "whole": bench.train,
            "Pillow": bench.augment_by_pillow,
        }
        rates: dict[str, list[Rates]] = {name: [] for name in contenders}
        for number in range(arguments.rounds):
            for name, measure in contenders.items():
                rates[name].append(measure(number))
    print(
        f"{arguments.model}, {arguments.size} px, batch {arguments.batch}, {arguments.precision} on {bench.device}, "
        f"{torch.get_num_threads()} threads, {arguments.rounds} rounds of {arguments.images} images; "
        f"load {os.getloadavg()[0]:.1f}"
    )
    show(rates)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Benchmark the input pipeline of fine-tuning.")
    parser.add_argument("--model", default="mobilenet_v2", help="a torchvision classifier")
    parser.add_argument("--size", type=int, default=96, help="pixels a side of what the network sees")
    parser.add_argument("--original", type=int, default=32, help="pixels a side of the images")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--images", type=int, default=128, help="of each contender in each round")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:<n>")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


class Bench:
    """The contenders: each gives its images a second in a round, of wall and of processor time."""

    def __init__(self, arguments: argparse.Namespace, cache: Path) -> None:
        self.cache, self.device = cache, choose_device(arguments.device)
        self.batch: int = arguments.batch
        self.files = make_files(arguments)
        settings = read_params()
        self.recipe = Recipe(
            **settings.train.finetune.model_dump(exclude={"ranks", "from_block", "precision", "held_out"}),
            precision=arguments.precision,
            held_out=0,
        )
        backbone = networks.build(arguments.model, weights=None, image_size=arguments.size)
        self.network = ImageToEmbedding(backbone)
        self.data = make_data(arguments.images, backbone.dim)
        method = create("nsh", settings.methods.model_dump()["nsh"] | {"init": "random"})
        self.objective = method.objective(self.data, bits=BITS, seed=0)  # type: ignore[attr-defined]
        fabric = open_fabric(self.device)
        self.images = TrainingImages.prepare(self.files, cache=cache / "images", fabric=fabric, progress=no_progress)
        module = FineTuning(self.network, self.objective, recipe=self.recipe, learning_rate=1e-5)
        self.run = FineTuningState(module, fabric, folder=cache, provenance={})
        self.batches = [
            np.arange(start, start + self.batch) for start in range(0, arguments.images - self.batch + 1, self.batch)
        ]

    def augment(self, number: int) -> Rates:
        """Views of every image, on the device."""
        pairs = [np.stack([rows, rows], axis=1) for rows in self.batches]
        return self._time(self.images.read_pairs(pairs, seed=0, epoch=number))

    def train_network(self, number: int) -> Rates:
        """Steps on one batch of random pixels."""
        shape = (2, self.batch, self.files.size, self.files.size, 3)
        views = torch.randint(0, 256, shape, dtype=torch.uint8, device=self.images.device)
        pair = torch.arange(self.batch, device=self.images.device), *views
        self.run.module.to(self.images.device).train()
        return self._time(self._step(pair) for _ in self.batches)

    def train(self, number: int) -> Rates:
        """An epoch of the loop."""
        times: list[Rates] = []

        def progress(iterable: Iterable[Any], *, desc: str = "", total: int | None = None) -> Iterator[Any]:
            for item in iterable:
                if desc == "train":  # asked for after a step; only the first and the last wait for the device
                    times.append(self._now() if item in (0, len(self.batches) - 1) else np.zeros(2))
                yield item

        loop = FineTuningLoop(
            network=self.network,
            images=self.files,
            recipe=self.recipe,
            cache=self.cache,
            threads=torch.get_num_threads(),
            device=self.device,
            progress=progress,
        )
        schedule = Schedule(epochs=1, batch=self.batch, learning_rate=1e-5)
        loop(self.objective, self.data, schedule=schedule, seed=number, identity={}, report=lambda record: None)
        return (len(times) - 1) * self.batch / (times[-1] - times[0])

    def augment_by_pillow(self, number: int) -> Rates:
        """Views of every image, by threads."""
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            return self._time(list(pool.map(self._draw, rows)) for rows in self.batches)

    def _step(self, pair: tuple[torch.Tensor, ...]) -> torch.Tensor:
        self.run.optimiser.zero_grad()
        loss: torch.Tensor = self.run.step_module(pair)["loss"]
        self.run.fabric.backward(loss)
        self.run.optimiser.step()
        return loss

    def _draw(self, row: int) -> None:
        for view in range(2):
            generator = view_generator(0, image=int(row), view=view)
            augment(self.files.read(int(row)), generator, size=self.files.size, resample=self.files.resample)

    def _time(self, batches: Iterable[object]) -> Rates:
        """Images a second from the second of `batches` on."""
        items = iter(batches)
        next(items)
        start = self._now()
        count = sum(1 for _ in items)
        return count * self.batch / (self._now() - start)

    def _now(self) -> Rates:
        if self.images.device.type == "cuda":
            torch.cuda.synchronize(self.images.device)
        return np.array([time.perf_counter(), time.process_time()])


def make_files(arguments: argparse.Namespace) -> ImageFiles:
    """Smooth noise."""
    small = np.random.default_rng(1).integers(0, 256, (64, 6, 6, 3), dtype=np.uint8)
    side = (arguments.original, arguments.original)
    images = [Image.fromarray(pixels).resize(side, Image.Resampling.BICUBIC) for pixels in small]
    return ImageFiles(
        ids=[str(row) for row in range(arguments.images)],
        digest="smooth noise",
        load=lambda name: images[int(name) % len(images)],
        size=arguments.size,
        resample="bilinear",
        workers=torch.get_num_threads(),
    )


def make_data(images: int, dim: int) -> TrainingData:
    """Random features and views, which stand for what the embed stage makes."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((images, dim), dtype=np.float32)
    noise = generator.standard_normal((images, 2, dim), dtype=np.float32)
    return TrainingData(features, (features[:, None] + noise / 2).astype(np.float16))


def show(rates: dict[str, list[Rates]]) -> None:
    """One line for each contender, and the target of `whole`."""
    print(f"{'':<14}{'images/s':>10}{'images/CPU s':>14}   beside the network alone: wall, CPU")
    for name, rounds in rates.items():
        wall, processor = np.median(rounds, axis=0)
        ratios = compare(rounds, rates["network"])
        print(f"{name:<14}{wall:>10.0f}{processor:>14.0f}   {ratios[0]:.2f}, {ratios[1]:.2f}")
    whole, gain = compare(rates["whole"], rates["network"]), compare(rates["augmentation"], rates["Pillow"])
    print(f"whole / network {whole[0]:.1%}; target {TARGET:.0%} {'met' if whole[0] >= TARGET else 'missed'}")
    print(f"augmentation / Pillow {gain[0]:.2f}, CPU {gain[1]:.2f}")


def compare(ours: list[Rates], theirs: list[Rates]) -> Rates:
    """Medians of the ratios of a round."""
    ratios: Rates = np.median(np.array(ours) / np.array(theirs), axis=0)
    return ratios


if __name__ == "__main__":
    main()
