"""Cost of the fixed CPU kernels in training: a step with those of `nsh.system.kernels` and with the processor's own.

    python benchmarks/kernels.py                      nsh, nsh_plus and cibhash at 32 bits
    python benchmarks/kernels.py --methods mbe sgh

A step is loss, backward and Adam. A process chooses its kernels once, so each contender is a process; they take turns.
One thread; processor time, medians over steps and then over rounds. There is no target: identical bytes are worth it.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import torch

from nsh.config import read_params
from nsh.methods import TrainingData, create
from nsh.system.kernels import KERNELS
from nsh.training.pairs import read_pairs

IMAGES, STEPS = 1000, 15


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Benchmark fixed CPU kernels against the processor's own.")
    parser.add_argument("--methods", nargs="+", default=["nsh", "nsh_plus", "cibhash"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", choices=["fixed", "free"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(*(measure(name, free=arguments.child == "free") for name in arguments.methods))
        return
    print(f"{IMAGES:,} images x 2 views x 1,280, load {os.getloadavg()[0]:.1f}")
    rounds = [{kind: run(kind, arguments.methods) for kind in ("fixed", "free")} for _ in range(arguments.rounds)]
    for place, name in enumerate(arguments.methods):
        fixed, free = (statistics.median(each[kind][place] for each in rounds) for kind in ("fixed", "free"))
        print(f"{name:<12} fixed {fixed * 1000:>7.2f} ms, free {free * 1000:>7.2f} ms a step: {fixed / free:.2f} times")


def run(kind: str, methods: list[str]) -> list[float]:
    """Seconds a step of each method, in a process of its own."""
    command = [sys.executable, __file__, "--child", kind, "--methods", *methods]
    return [float(word) for word in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]


def measure(name: str, *, free: bool) -> float:
    """Seconds of processor time a step; this process's kernels are chosen by the first one."""
    if free:
        for variable in KERNELS:
            os.environ.pop(variable, None)
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    views = generator.standard_normal((IMAGES, 2, 1280), dtype=np.float32)
    data = TrainingData(views[:, 0].copy(), views.astype(np.float16))
    parameters = read_params().methods.model_dump()[name]
    objective = create(name, parameters).objective(data, bits=32, seed=0)  # type: ignore[attr-defined]
    optimiser = torch.optim.Adam(objective.parameters(), lr=parameters["learning_rate"], fused=True)
    seconds = []
    for pair in list(read_pairs(data.views, batch=parameters["batch"], seed=0, epochs=range(STEPS)))[:STEPS]:
        start = time.process_time()
        optimiser.zero_grad()
        objective.cached_loss(*pair)["loss"].backward()
        optimiser.step()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds[1:])


if __name__ == "__main__":
    main()
