"""A network of two layers, two dozen small images, and the loop over both; also for processes that tests start."""

from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from nsh.methods import HashHead, TrainingData, create
from nsh.training.augment import augment, view_generator
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.loop import FineTuningLoop
from nsh.training.finetune.recipe import Recipe

IMAGES, SIZE, DIM, BITS = 24, 16, 8, 6
RECIPE: dict[str, Any] = {
    "learning_rate": 1e-3,
    "batch_norm": "frozen",
    "precision": "fp32",
    "channels_last": False,
    "compile": False,
    "clip": None,
    "average": 0.0,
    "held_out": 6,
    "patience": None,
    "keep": "last",
    "checkpoint_minutes": 60.0,
}
NSH: dict[str, Any] = {
    "epochs": 3,
    "batch": 6,
    "learning_rate": 3e-3,
    "m": 2,
    "tau_s": 0.1,
    "tau_c": 0.2,
    "d_z": 8,
    "similarity": "cosine",
    "quantisation": 0.1,
    "quantiser": "norm",
    "hidden": 0,
    "symmetric": False,
    "init": "itq",
    "ablation": "none",
}


class Network(nn.Module):
    """Images uint8 [n, S, S, 3] to embeddings float32 [n, DIM], through a convolution and its batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 6, 3, stride=2)
        self.norm = nn.BatchNorm2d(6)
        self.dropout = nn.Dropout(0.5)
        self.last = nn.Linear(6, DIM)

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.permute(0, 3, 1, 2).to(self.last.weight.dtype) / 255 - 0.5
        hidden = self.norm(self.convolution(pixels)).relu().mean(dim=(2, 3))
        embeddings: Tensor = self.last(self.dropout(hidden))
        return embeddings


class Tiny(NamedTuple):
    pixels: list[Image.Image]
    data: TrainingData


def make_network() -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Network().eval()


def make_images(count: int = IMAGES) -> list[Image.Image]:
    """Noise in four colours."""
    generator = np.random.default_rng(0)
    colours = generator.integers(60, 200, size=(4, 3))
    noise = generator.integers(-50, 50, size=(count, SIZE, SIZE, 3))
    return [Image.fromarray((colours[row % 4] + noise[row]).clip(0, 255).astype(np.uint8)) for row in range(count)]


def make_tiny(count: int = IMAGES) -> Tiny:
    """Images, and what the network sees of them before it is trained."""
    images, network = make_images(count), make_network()
    views = [
        [augment(image, view_generator(0, image=row, view=view), size=SIZE, resample="bilinear") for view in range(2)]
        for row, image in enumerate(images)
    ]
    with torch.no_grad():
        clean = network(torch.from_numpy(np.stack([np.asarray(image) for image in images])))
        seen = network(torch.from_numpy(np.stack(views).reshape(-1, SIZE, SIZE, 3))).reshape(count, 2, DIM)
    return Tiny(images, TrainingData(clean.numpy(), seen.numpy().astype(np.float16)))


def make_loop(cache: Path, *, network: nn.Module | None = None, count: int = IMAGES, **changes: Any) -> FineTuningLoop:
    images = make_images(count)
    names = {field.name for field in fields(Recipe)}
    recipe = Recipe(**RECIPE | {name: value for name, value in changes.items() if name in names})
    return FineTuningLoop(
        network=make_network() if network is None else network,
        images=ImageFiles(
            ids=[str(row) for row in range(count)],
            digest="noise",
            load=lambda name: images[int(name)],
            size=SIZE,
            resample="bilinear",
            workers=1,
        ),
        recipe=recipe,
        cache=cache,
        threads=1,
        **{"say": lambda line: None} | {name: value for name, value in changes.items() if name not in names},
    )


def fit(loop: FineTuningLoop, data: TrainingData, *, records: list | None = None, seed: int = 0, **changes) -> HashHead:
    """NSH, fine-tuned."""
    report = (lambda record: None) if records is None else records.append
    return create("nsh", NSH | changes).fit(data, bits=BITS, seed=seed, report=report, loop=loop)


def all_weights(loop: FineTuningLoop, head: HashHead) -> dict[str, Tensor]:
    """Of network and head."""
    return {**loop.network.state_dict(prefix="network."), **head.state_dict(prefix="head.")}


def are_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
