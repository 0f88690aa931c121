"""Overhead of the training loop (order, reading, records and progress) compared with a bare loop.

    python benchmarks/training_loop.py                      nsh, cibhash and greedyhash at 32 bits
    python benchmarks/training_loop.py --methods nsh_plus

Three contenders take turns in every round on the same objective. `bare` calls loss, backward and Adam on pairs in
memory; `reading` does the same on pairs that are read as the loop reads them; `loop` is `nsh.training.loop`, with its
start, its checkpoints and its records of bit balance. One thread; processor time, medians over rounds. Features are
random numbers in the real shape: time does not depend on their values.
"""

import argparse
import copy
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from nsh.config import read_params
from nsh.methods import Objective, Schedule, TrainingData, create
from nsh.training.loop import CachedViewLoop
from nsh.training.pairs import Pair, read_pairs

TARGET = 0.15


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments()
    torch.set_num_threads(1)
    data = make_data(arguments.images)
    print(f"{arguments.images:,} images x 8 views x 1,280, load {os.getloadavg()[0]:.1f}")
    print(f"{'method':<12} {'bare':>10} {'reading':>10} {'loop':>10}   a step; what the loop adds to one that reads")
    for name in arguments.methods:
        times = measure(name, data, epochs=arguments.epochs, rounds=arguments.rounds)
        bare, reading, loop = (statistics.median(times[who]) * 1000 for who in ("bare", "reading", "loop"))
        added = loop / reading - 1
        verdict = f"{added:.1%}; target {TARGET:.0%} {'met' if added <= TARGET else 'missed'}"
        print(f"{name:<12} {bare:>7.2f} ms {reading:>7.2f} ms {loop:>7.2f} ms   {verdict}")
    print(f"load {os.getloadavg()[0]:.1f}")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Benchmark the training loop against a bare loop.")
    parser.add_argument("--methods", nargs="+", default=["nsh", "cibhash", "greedyhash"])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, help="default: the method's own, of params.yaml")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def make_data(images: int) -> TrainingData:
    """Random features and views."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((images, 1280), dtype=np.float32)
    noise = generator.standard_normal((images, 8, 1280), dtype=np.float32)
    return TrainingData(features, (features[:, None] + noise / 2).astype(np.float16))


def measure(name: str, data: TrainingData, *, epochs: int | None, rounds: int) -> dict[str, list[float]]:
    """Seconds of processor time a step of each contender, one figure a round."""
    parameters = read_params().methods.model_dump()[name]
    method = create(name, parameters)
    fresh = method.objective(data, bits=32, seed=0)  # type: ignore[attr-defined]
    epochs = epochs or parameters["epochs"]
    schedule = Schedule(epochs=epochs, batch=parameters["batch"], learning_rate=parameters["learning_rate"])

    def read(epochs: int) -> Iterator[Pair]:
        return read_pairs(data.views, batch=schedule.batch, seed=0, epochs=range(epochs))

    ready = list(read(1))
    contenders: dict[str, Callable[[Objective], None]] = {
        "bare": lambda objective: run_bare(objective, ready * epochs, rate=schedule.learning_rate),
        "reading": lambda objective: run_bare(objective, read(epochs), rate=schedule.learning_rate),
        "loop": lambda objective: run_loop(objective, data, schedule),
    }
    times: dict[str, list[float]] = {who: [] for who in contenders}
    for _ in range(rounds):
        for who, run in contenders.items():
            objective = copy.deepcopy(fresh)
            start = time.process_time()
            run(objective)
            times[who].append((time.process_time() - start) / (len(ready) * epochs))
    return times


def run_bare(objective: Objective, pairs: Iterable[Pair], *, rate: float) -> None:
    """Loss, backward, Adam, and nothing else."""
    optimiser = torch.optim.Adam(objective.parameters(), lr=rate, fused=True)
    for rows, first, second in pairs:
        optimiser.zero_grad()
        objective.cached_loss(rows, first, second)["loss"].backward()
        optimiser.step()


def run_loop(objective: Objective, data: TrainingData, schedule: Schedule) -> None:
    """What the train stage runs."""
    with tempfile.TemporaryDirectory() as folder:
        loop = CachedViewLoop(cache=Path(folder), threads=1, progress=tqdm)
        loop(objective, data, schedule=schedule, seed=0, identity={}, report=lambda record: None)


if __name__ == "__main__":
    main()
