"""Stage train: data/embed -> models/<method>-<bits>/{head.pt, history.json}.

head.pt is the head's state dict, history.json one record an epoch or iteration. A cut run goes on from its last epoch.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from nsh.config import read_params
from nsh.core.codes import code_bytes
from nsh.core.command import run_stage
from nsh.core.errors import DataError
from nsh.core.files import atomic_path, write_json
from nsh.methods import TrainingData, create
from nsh.methods.heads import to_bytes
from nsh.terminal import show_progress
from nsh.tracking import training_run
from nsh.training.device import choose_device
from nsh.training.loop import CachedViewLoop

EMBED, MODELS, CACHE = Path("data/embed"), Path("models"), Path(".cache/nsh/train")


def main() -> None:
    """Train one method at one code length."""
    parser = argparse.ArgumentParser(description="Learn models/<method>-<bits>/head.pt from the cached embeddings.")
    parser.add_argument("--method", required=True, help="a block of params.yaml's methods, e.g. nsh")
    parser.add_argument("--bits", required=True, type=int, help="length of a code, e.g. 32")
    arguments = parser.parse_args()
    code_bytes(arguments.bits)  # refuses what is no length of a code before anything is read
    params, folder = read_params(), MODELS / f"{arguments.method}-{arguments.bits}"
    method = create(arguments.method, params.methods.model_dump().get(arguments.method, {}))
    threads, device = params.train.threads, choose_device(params.compute.device)
    torch.set_num_threads(threads)
    loop = CachedViewLoop(cache=CACHE, threads=threads, device=device, progress=show_progress)
    history: list[dict[str, float]] = []
    start = time.monotonic()
    run = {"method": arguments.method, "bits": arguments.bits, "head": folder / "head.pt"}
    with training_run(Path(), params, **run) as track:

        def report(record: dict[str, float]) -> None:
            track(record)
            history.append(record)

        head = method.fit(read_data(), bits=arguments.bits, seed=params.train.seed, report=report, loop=loop)
        with atomic_path(folder / "head.pt") as partial:
            partial.write_bytes(to_bytes(head))
        write_json(folder / "history.json", history)
    print(f"{folder}: loss {history[0]['loss']:.4f} to {history[-1]['loss']:.4f} in {len(history)} rounds, ", end="")
    print(f"{time.monotonic() - start:.1f} s on {device} with {threads} thread(s)")


def read_data() -> TrainingData:
    """Features into memory, views as a map of the file."""
    try:
        return TrainingData(np.load(EMBED / "train.npy"), np.load(EMBED / "views.npy", mmap_mode="r"))
    except FileNotFoundError as error:
        raise DataError(f"{error.filename} is not here: run `dvc repro embed` first") from error


if __name__ == "__main__":
    run_stage(main)
