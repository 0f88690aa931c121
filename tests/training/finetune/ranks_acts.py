"""What the ranks of `ranks_program.py` do."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.finetune.tiny import (
    BITS,
    IMAGES,
    NSH,
    RECIPE,
    SIZE,
    Tiny,
    all_weights,
    fit,
    make_loop,
    make_network,
    make_tiny,
)
from tests.waiting import await_sigterm

from nsh.methods import Objective, create
from nsh.system.progress import no_progress
from nsh.training.augment import augment, view_generator
from nsh.training.finetune.fabric import open_fabric
from nsh.training.finetune.images import Pair, TrainingImages
from nsh.training.finetune.module import FineTuning
from nsh.training.finetune.order import shard
from nsh.training.finetune.ranks import this_rank
from nsh.training.finetune.recipe import Recipe
from nsh.training.finetune.state import FineTuningState

RANKS, BATCH = 2, 12
LONG = ("long", "cut", "rest")
TOGETHER = ("step", "train", "long", "rest")
RIVALS = {
    "cibhash": {"hidden": 8, "temperature": 0.3, "bottleneck": 0.01},
    "crovca": {"coding_rate": 0.1, "epsilon": 0.05},
    "deepbit": {"balance": 1.0, "invariance": 0.1},
    "greedyhash": {"penalty": 0.1},
    "mls3rduh": {"images": IMAGES, "share": 0.2, "alpha": 0.9},
    "cimon": {"images": IMAGES, "similar": 0.2, "clusters": 3, "contrast": 0.3, "temperature": 0.5},
    "nsh_plus": {
        "m": 2,
        "tau_s": 0.1,
        "tau_c": 0.2,
        "d_z": 4,
        "queue": 8,
        "sorting": 1.0,
        "temperature": 0.3,
        "neighbours": 0.121,  # 3 images
        "directions": 4,
        "hidden": 8,
    },
}
OBJECTIVES = {
    "nsh": NSH,
    "nsh symmetric": NSH | {"symmetric": True},
    "nsh hidden": NSH | {"hidden": 8, "init": "random"},
    "nsh hard_sort": NSH | {"ablation": "hard_sort"},
    "nsh single_bottleneck": NSH | {"ablation": "single_bottleneck"},
    **{name: {"epochs": 1, "batch": BATCH, "learning_rate": 1e-3, **RIVALS[name]} for name in RIVALS},
}


def build(name: str, tiny: Tiny) -> Objective:
    method = create(name.partition(" ")[0], OBJECTIVES[name])
    objective: Objective = method.objective(tiny.data, bits=BITS, seed=0)
    return objective.double()


def make_pair(tiny: Tiny) -> Pair:
    """A global batch: a view of every other image, and one of its partner, which for every third is another image."""
    rows = np.arange(BATCH) * 2 + 1
    partners = np.where(np.arange(BATCH) % 3, rows, rows - 1)
    views = [
        np.stack(
            [
                augment(tiny.pixels[row], view_generator(0, image=row, view=view), size=SIZE, resample="bilinear")
                for row in images
            ]
        )
        for view, images in ((2, rows), (3, partners))
    ]
    return torch.from_numpy(rows), torch.from_numpy(views[0]), torch.from_numpy(views[1])


def act(folder: Path, name: str) -> None:
    """Run what the act is called by, in `folder`; "all" are those that need no process of their own."""
    if name == "all":
        for one in TOGETHER:
            act(folder / one, one)
    elif name == "step":
        step(folder)
    else:
        train(folder, act=name, epochs=20 if name in LONG else 4)


def step(folder: Path) -> None:
    """Of every objective the loss and the gradient of one step, from rank 0."""
    tiny, fabric, found = make_tiny(), open_fabric("cpu"), {}
    for name in OBJECTIVES:
        module = FineTuning(make_network().double(), build(name, tiny), recipe=Recipe(**RECIPE), learning_rate=1e-3)
        run = FineTuningState(module, fabric, folder=folder / "cache", provenance={})
        module.train()
        own = tuple(shard(part, rank=this_rank(), ranks=RANKS) for part in make_pair(tiny))
        terms = run.step(own, seed=0)
        gradients = {key: parameter.grad.clone() for key, parameter in module.named_parameters()}
        found[name] = {"terms": {key: value.detach() for key, value in terms.items()}, "gradients": gradients}
    if this_rank() == 0:
        torch.save(found, folder / "found.pt")


def train(folder: Path, *, epochs: int, act: str) -> None:
    """A whole run; what every rank read, and on rank 0 what came out."""
    read, records, tiny = [], [], make_tiny()
    (folder / f"pid-{this_rank()}").write_text(str(os.getpid()))
    loop = make_loop(folder / "cache", keep="best", held_out=8, progress=show if act == "cut" else no_progress)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("read_pairs", "read_clean"):
            note(name, read, act=act, patch=patch)
        head = fit(loop, tiny.data, records=records, epochs=epochs, batch=8)
    (folder / f"read-{this_rank()}.json").write_text(json.dumps(read))
    if this_rank() == 0:
        torch.save({"weights": all_weights(loop, head), "records": records}, folder / "found.pt")


def note(name: str, read: list, *, act: str, patch: pytest.MonkeyPatch) -> None:
    """Let a method of the images write down the rows that are read, and rank 1 die at the 40th if it is to."""
    method = getattr(TrainingImages, name)

    def noting(self, batches, **keywords):
        batches = list(batches)
        for rows, made in zip(batches, method(self, batches, **keywords), strict=True):
            read.extend(rows.reshape(len(rows), -1)[:, 0].tolist())
            if act == "die" and this_rank() == 1 and len(read) >= 40:
                os._exit(7)
            yield made

    patch.setattr(TrainingImages, name, noting)


def show(iterable, *, desc="", total=None):
    """Let rank 0 wait for SIGTERM before the last steps."""
    for number in iterable:
        if (this_rank(), desc, number) == (0, "train", 31):
            await_sigterm("here")
        yield number
