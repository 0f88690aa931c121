"""Measures what inner activations save: views a second of a training step, from the cache and from pixels.

    python benchmarks/finetune_from.py                                          mobilenet_v2 from features.14, 96 px
    python benchmarks/finetune_from.py --model tf_efficientnet_lite2 --block blocks.5

Three contenders take turns in every round: NSH at 32 bits, forward, backward and Adam. `all layers`: they learn, from
pixels. `from pixels`: the block and all above it learn, and the lower part runs without gradients in every step.
`from activations`: the same blocks learn from what the lower part made once. Pixels are augmented in the step, as in an
epoch. The first batch warms up and does not count. Figures are medians over rounds, ratios are of the same round, in
processor time. Weights are random and originals are smooth noise, which take the same time as real ones.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from nsh.backbones import networks
from nsh.backbones.blocks import cut
from nsh.backbones.pixels import ImageToEmbedding
from nsh.config import read_params
from nsh.methods import create
from nsh.system.progress import no_progress
from nsh.training.finetune.activations import Activations, LowerPart
from nsh.training.finetune.fabric import open_fabric
from nsh.training.finetune.images import Inputs, TrainingImages
from nsh.training.finetune.module import FineTuning
from nsh.training.finetune.recipe import Recipe
from nsh.training.finetune.state import FineTuningState
from nsh.training.reproducible import reproducible
from train_throughput import BITS, make_data, make_files

VIEWS, RATE = 8, 1e-5


class Joined(nn.Module):
    """Lower part, without gradients, and upper part."""

    def __init__(self, lower: nn.Module, upper: nn.Module) -> None:
        super().__init__()
        self.lower, self.upper = lower, upper

    def forward(self, images: Tensor) -> Tensor:
        """Images uint8 [n, S, S, 3] to embeddings float32 [n, d]."""
        with torch.no_grad():
            inner = self.lower(images)
        return self.upper(inner)  # type: ignore[no-any-return]


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments()
    with reproducible(torch.get_num_threads()), tempfile.TemporaryDirectory() as folder:
        contenders = open_contenders(arguments, Path(folder))
        rates: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(arguments.rounds):
            for name, steps in contenders.items():
                rates[name].append(measure(steps(number), views=2 * arguments.batch))
    print(
        f"{arguments.model} from {arguments.block}, {arguments.size} px, batch {arguments.batch}, fp32, "
        f"{torch.get_num_threads()} thread(s), {arguments.rounds} rounds of {arguments.images} images; "
        f"load {os.getloadavg()[0]:.1f}"
    )
    for name, found in rates.items():
        gain = np.median(np.array(found) / np.array(rates["from pixels"]))
        print(f"{name:<18}{np.median(found):>6.0f} views/CPU s, {gain:.2f} of `from pixels`")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Benchmark fine-tuning from inner activations.")
    parser.add_argument("--model", default="mobilenet_v2", help="a classifier whose blocks are known")
    parser.add_argument("--block", default="features.14", help="the first that learns")
    parser.add_argument("--size", type=int, default=96, help="pixels a side of what the network sees")
    parser.add_argument("--original", type=int, default=32, help="pixels a side of the images")
    parser.add_argument("--batch", type=int, default=50, help="images, of two views each")
    parser.add_argument("--images", type=int, default=200, help="in a round; of at least two batches")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.images < 2 * arguments.batch:
        parser.error(f"--images: found {arguments.images}, allowed is {2 * arguments.batch} or more: two batches")
    return arguments


def open_contenders(arguments: argparse.Namespace, cache: Path) -> dict[str, Callable[[int], Iterator[object]]]:
    """By name, what gives the steps of a round."""
    files, fabric = make_files(arguments), open_fabric("cpu")
    shown = {"progress": no_progress}
    pixels = TrainingImages.prepare(files, cache=cache, fabric=fabric, **shown)
    backbone = networks.build(arguments.model, weights=None, image_size=arguments.size)
    parts = cut(backbone, arguments.block)
    network = ImageToEmbedding(parts.lower)
    lower = LowerPart(network=network, block=arguments.block, shape=parts.shape, views=VIEWS, seed=0, made_of={})
    where = {"cache": cache, "device": fabric.device}
    activations = Activations.prepare(files, lower=lower, **where, **shown, say=print)
    tuned: dict[str, tuple[nn.Module, Inputs]] = {
        "all layers": (ImageToEmbedding(backbone), pixels),
        "from pixels": (Joined(network, parts.upper), pixels),
        "from activations": (parts.upper, activations),
    }
    return {name: open_steps(*one, arguments=arguments, dim=backbone.dim) for name, one in tuned.items()}


def open_steps(
    network: nn.Module, inputs: Inputs, *, arguments: argparse.Namespace, dim: int
) -> Callable[[int], Iterator[object]]:
    """What gives the steps of a round, an epoch of the images."""
    settings = read_params()
    recipe = Recipe(**settings.train.finetune.model_dump(exclude={"ranks", "from_block"}))
    method = create("nsh", settings.methods.model_dump()["nsh"] | {"init": "random"})
    objective = method.objective(make_data(arguments.images, dim), bits=BITS, seed=0)  # type: ignore[attr-defined]
    module = FineTuning(network, objective, recipe=recipe, learning_rate=RATE)
    run = FineTuningState(module, open_fabric("cpu"), folder=Path(), provenance={})
    rows = np.arange(arguments.images // arguments.batch * arguments.batch).reshape(-1, arguments.batch)
    pairs = [np.stack([batch, batch], axis=1) for batch in rows]

    def steps(number: int) -> Iterator[object]:
        module.train()
        return (run.step(views, seed=0) for views in inputs.read_pairs(pairs, seed=0, epoch=number))

    return steps


def measure(steps: Iterator[object], *, views: int) -> float:
    """Views a processor second, from the second step on."""
    next(steps)
    start = time.process_time()
    count = sum(1 for _ in steps)
    return count * views / (time.process_time() - start)


if __name__ == "__main__":
    main()
