"""TBH with the steps, the batch and the learning rate that its paper has: mAP@1000 at 32 bits as the training goes on.

    make table ROOT=<CIFAR-10> METHODS=tbh BITS=32 SEEDS=1
    nohup python benchmarks/tbh_steps.py &

Reads the split and the embeddings that `make table` left for --setting. 100,000 steps of 400 images take hours of one
core, so matrix products are rounded to bfloat16 (weights, sums and Adam are float32; --float32 for all), and the
kernels are the processor's own: other processors give other last digits. A stopped call goes on from its last 2,000
steps. Prints a line every 10,000: codes are the signs of the trained head's logits, the ranking is the evaluator's.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nsh.core.codes import binarize, pack
from nsh.core.metrics import evaluate
from nsh.data.split import read_part
from nsh.methods.tbh import Tbh
from nsh.objectives.base import TrainingData
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.system.kernels import KERNELS
from nsh.training.state import TrainingState

BITS, K, SEED = 32, 1000, 0
PUBLISHED = Tbh(batch=400, learning_rate=1e-4)
KEPT, SHOWN = 2_000, 10_000  # steps between checkpoints, and between lines


def main() -> None:
    """Train to the published number of steps, and measure on the way."""
    parser = argparse.ArgumentParser(description="TBH with its published steps: mAP as the training goes on.")
    parser.add_argument("--setting", default="cifar10", help="of make table, which has made its embeddings")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--float32", action="store_true", help="matrix products in float32: half as fast")
    arguments = parser.parse_args()
    project = Project(Path(".cache/studies") / arguments.setting)
    if not project.embed.is_dir():
        print(f"nothing measured: {project.embed} is not there; make table SETTING={arguments.setting} makes it")
        return
    for variable in KERNELS:  # set by the package; torch reads them at its first operation
        os.environ.pop(variable, None)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # rounded gradients of saturated sigmoids are that small, and slow
    train(project, steps=arguments.steps, rounded=not arguments.float32)


def train(project: Project, *, steps: int, rounded: bool) -> None:
    """Do the steps that are left, with a line and a checkpoint where they are due."""
    checkpoint = Path(f".cache/benchmarks/tbh_steps/{project.folder.name}-{'bfloat16' if rounded else 'float32'}.ckpt")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    features, views = Embeddings(project.embed).read_training()
    objective, images = (
        PUBLISHED.objective(TrainingData(features, views), bits=BITS, seed=SEED),
        torch.from_numpy(features),
    )
    state = TrainingState(objective, learning_rate=PUBLISHED.learning_rate, device="cpu")
    state.resume(checkpoint)
    done = int(state.records[-1]["step"]) if state.records else 0
    print(f"{len(features)} images, step {done} of {steps}", flush=True)
    start = time.process_time()
    for step, rows in enumerate(draw_batches(len(features), after=done), start=done + 1):
        state.optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=rounded):
            terms = objective.cached_loss(rows, images[rows], images[rows])
        terms["loss"].backward()  # type: ignore[no-untyped-call]
        state.optimiser.step()
        if step % KEPT == 0 or step == steps:
            state.records.append({"step": step, "loss": terms["loss"].item()})
            state.save(checkpoint)
        if step % SHOWN == 0 or step == steps:
            seconds = (time.process_time() - start) / (step - done)
            figure = measure(project, objective.head)
            print(f"step {step}: mAP@{K} {figure:.4f}, loss {terms['loss']:.0f}, {seconds:.3f} s a step", flush=True)
        if step == steps:
            return


def draw_batches(images: int, *, after: int) -> Iterator[Tensor]:
    """Rows of the batches after the first `after`, each image once an epoch, without an end."""
    an_epoch = images // PUBLISHED.batch
    epoch, skipped = divmod(after, an_epoch)
    while True:
        order = np.random.default_rng([SEED, epoch]).permutation(images)[: an_epoch * PUBLISHED.batch]
        yield from torch.from_numpy(order).view(an_epoch, -1)[skipped:]
        epoch, skipped = epoch + 1, 0


@torch.no_grad()
def measure(project: Project, head: torch.nn.Module) -> float:
    """mAP@1000 of the codes of a head in training."""

    def encode(part: str) -> NDArray[np.uint8]:
        embeddings = torch.from_numpy(np.array(Embeddings(project.embed).read(part)))
        return pack(binarize(head(embeddings).numpy()))

    head.eval()
    labels = [read_part(project.split, part).labels for part in ("query", "gallery")]
    found = evaluate(encode("query"), encode("gallery"), *labels, bits=BITS, k=K)
    head.train()
    return found.metrics[f"mAP_at_{K}"]


if __name__ == "__main__":
    main()
