"""TBH with the steps, the batch and the learning rate that its paper has: mAP@1000 at 32 bits as the training goes on.

    make table ROOT=<CIFAR-10> METHODS=tbh BITS=32 SEEDS=1
    nohup python benchmarks/tbh_steps.py &

Reads the split and the embeddings of CIFAR-10 that `make table` left. 100,000 steps of 400 images take over an hour of
one core, although matrix products are rounded to bfloat16 (weights, sums and Adam are float32) and the kernels are the
processor's own: other processors give other last digits. A stopped call goes on from its last checkpoint. A line is
printed every 10,000 steps: codes are the signs of the trained head's logits, the ranking is the evaluator's.
"""

import argparse
import os
import time
from collections.abc import Iterator
from itertools import islice
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

PROJECT, CHECKPOINT = Project(Path(".cache/studies/cifar10")), Path(".cache/benchmarks/tbh_steps/last.ckpt")
BITS, K, SEED = 32, 1000, 0
PUBLISHED = Tbh(batch=400, learning_rate=1e-4)
STEPS, KEPT, SHOWN = 100_000, 2_000, 10_000  # in all, and between checkpoints and lines


def main() -> None:
    """Train to the published number of steps, and measure on the way."""
    argparse.ArgumentParser(description="TBH with its published steps: mAP as the training goes on.").parse_args()
    if not PROJECT.embed.is_dir():
        print(f"nothing measured: {PROJECT.embed} is not there; make table ROOT=<CIFAR-10> makes it")
        return
    for variable in KERNELS:  # set by the package; torch reads them at its first operation
        os.environ.pop(variable, None)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # rounded gradients of saturated sigmoids are that small, and slow
    train()


def train() -> None:
    """Do the steps that are left, with a line and a checkpoint where they are due."""
    CHECKPOINT.parent.mkdir(parents=True, exist_ok=True)
    features, views = Embeddings(PROJECT.embed).read_training()
    images = torch.from_numpy(features)
    objective = PUBLISHED.objective(TrainingData(features, views), bits=BITS, seed=SEED)
    state = TrainingState(objective, learning_rate=PUBLISHED.learning_rate, device="cpu")
    state.resume(CHECKPOINT)
    done = int(state.records[-1]["step"]) if state.records else 0
    print(f"{len(features)} images, step {done} of {STEPS}", flush=True)
    start = time.process_time()
    batches = islice(draw_batches(len(features), after=done), STEPS - done)
    for step, rows in enumerate(batches, start=done + 1):
        state.optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            terms = objective.cached_loss(rows, images[rows], images[rows])
        terms["loss"].backward()  # type: ignore[no-untyped-call]
        state.optimiser.step()
        if step % KEPT == 0:
            state.records.append({"step": step, "loss": terms["loss"].item()})
            state.save(CHECKPOINT)
        if step % SHOWN == 0:
            seconds = (time.process_time() - start) / (step - done)
            figure = measure(objective.head)
            print(f"step {step}: mAP@{K} {figure:.4f}, loss {terms['loss']:.0f}, {seconds:.3f} s a step", flush=True)


def draw_batches(images: int, *, after: int) -> Iterator[Tensor]:
    """Rows of the batches after the first `after`, each image once an epoch, without an end."""
    an_epoch = images // PUBLISHED.batch
    epoch, skipped = divmod(after, an_epoch)
    while True:
        order = np.random.default_rng([SEED, epoch]).permutation(images)[: an_epoch * PUBLISHED.batch]
        yield from torch.from_numpy(order).view(an_epoch, -1)[skipped:]
        epoch, skipped = epoch + 1, 0


@torch.no_grad()
def measure(head: torch.nn.Module) -> float:
    """mAP@1000 of the codes of a head in training."""

    def encode(part: str) -> NDArray[np.uint8]:
        embeddings = torch.from_numpy(np.array(Embeddings(PROJECT.embed).read(part)))
        return pack(binarize(head(embeddings).numpy()))

    head.eval()
    labels = [read_part(PROJECT.split, part).labels for part in ("query", "gallery")]
    found = evaluate(encode("query"), encode("gallery"), *labels, bits=BITS, k=K)
    head.train()
    return found.metrics[f"mAP_at_{K}"]


if __name__ == "__main__":
    main()
