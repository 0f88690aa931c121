"""How long trainings take with one and with two threads, on a quiet machine and beside two busy processes.

    python benchmarks/threads.py                      nsh and nsh_plus of 64 bits, two epochs of 5,000 images
    python benchmarks/threads.py --methods nsh --epochs 5

Each training is a process of its own, with parameters of params.yaml. A waiting thread spins before it sleeps, few
times (`nsh.system.kernels`) or as often as OpenMP has it. "quiet" is what the machine is when it is started.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from nsh.system.kernels import SPINS

IMAGES, VIEWS, DIM, BITS = 5000, 4, 1280, 64
OPENMP = {name: "300000" for name in SPINS}  # libgomp's own number where threads are not more than cores
CASES = {"1 thread": (1, SPINS), "2 threads": (2, SPINS), "2 threads, spins of OpenMP": (2, OPENMP)}


def main() -> None:
    """Train in each case, and print seconds and the ratio to one thread."""
    parser = argparse.ArgumentParser(description="Compare numbers of threads in training.")
    parser.add_argument("--methods", nargs="+", default=["nsh", "nsh_plus"])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.threads:
        print(train(arguments.methods[0], epochs=arguments.epochs, threads=arguments.threads))
        return
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    for method in arguments.methods:
        for others in (0, 2):
            with busy(others):
                seconds = {case: measure(method, arguments.epochs, *CASES[case]) for case in CASES}
            for case, found in seconds.items():
                beside = "quiet" if not others else f"beside {others}"
                print(f"{method:9} {beside:9} {case:27} {found:6.1f} s  {found / seconds['1 thread']:5.2f}", flush=True)


def measure(method: str, epochs: int, threads: int, spins: dict[str, str]) -> float:
    """Seconds of a training in a process of its own."""
    command = [sys.executable, __file__, "--methods", method, "--epochs", str(epochs), "--threads", str(threads)]
    done = subprocess.run(command, env=os.environ | spins, stdout=subprocess.PIPE, check=True)
    return float(done.stdout)


def train(method: str, *, epochs: int, threads: int) -> float:
    """Seconds of a training in this process, on noise."""
    import numpy as np

    from nsh.config import read_params
    from nsh.methods import TrainingData, create
    from nsh.training.loop import CachedViewLoop
    from nsh.training.reproducible import reproducible

    generator = np.random.default_rng(0)
    features = generator.normal(size=(IMAGES, DIM)).astype(np.float32)
    views = (features[:, None] + generator.normal(size=(IMAGES, VIEWS, DIM))).astype(np.float16)
    parameters = read_params(Path(__file__).parents[1] / "params.yaml").methods.model_dump()[method]
    with TemporaryDirectory() as folder, reproducible(threads):
        trained = create(method, parameters | {"epochs": epochs})
        loop, start = CachedViewLoop(cache=Path(folder), threads=threads), time.perf_counter()
        trained.fit(TrainingData(features, views), bits=BITS, seed=0, report=lambda record: None, loop=loop)
        return time.perf_counter() - start


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that take all the time they get, while the block runs."""
    processes = [multiprocessing.Process(target=_work, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _work() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
