"""Train a head of every method, and a network, also in a process of its own, and print digests of what came of it.

    python -m tests.training.kernels_program <folder> [<variables as JSON>]

With variables torch computes with the kernels that they choose, as it would if nothing were fixed.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
from tests.methods.small import BITS, DIM, NAMES, PARAMETERS, create_small, draw_features
from tests.training.finetune import tiny

from nsh.config import read_params
from nsh.methods import HashHead, Method, TrainingData, create
from nsh.objectives.heads.linear import to_bytes
from nsh.training import reproducible as room
from nsh.training.loop import CachedViewLoop

WIDE = ("nsh", "nsh_plus")  # with the parameters of params.yaml: their products are large enough to be shared out
THREADS = read_params(Path(__file__).parents[2] / "params.yaml").train.threads

Trained = tuple[HashHead, list[dict[str, float]]]


def train_all(folder: Path) -> dict[str, str]:
    """Digests of heads and histories, and torch's word for its kernels."""
    found = {"kernels": torch.backends.cpu.get_cpu_capability()}
    for name in NAMES:
        head, history = train(name, folder / name)
        found |= {name: digest(to_bytes(head)), f"history of {name}": digest(json.dumps(history).encode())}
    for name in WIDE:
        head, _ = fit(create(name, PARAMETERS[name] | {"epochs": 1}), draw_data(dim=1280), folder / f"wide {name}")
        found[f"{name}, wide"] = digest(to_bytes(head))
    loop, history = tiny.make_loop(folder / "images"), []
    weights = tiny.all_weights(loop, tiny.fit(loop, tiny.make_tiny().data, records=history, epochs=1))
    tuned = b"".join(value.numpy().tobytes() for value in weights.values())
    return found | {"fine-tuning": digest(tuned), "history of fine-tuning": digest(json.dumps(history).encode())}


def train(name: str, folder: Path) -> Trained:
    """The head of a small method, and its history."""
    return fit(create_small(name), draw_data(), folder)


def fit(method: Method, data: TrainingData, folder: Path) -> Trained:
    history: list[dict[str, float]] = []
    with room.reproducible(THREADS):
        loop = CachedViewLoop(cache=folder, threads=THREADS)
        return method.fit(data, bits=BITS, seed=0, report=history.append, loop=loop), history


def draw_data(dim: int = DIM) -> TrainingData:
    features = draw_features(dim=dim)
    views = features[:, None] + 0.2 * np.random.default_rng(1).normal(size=(len(features), 3, features.shape[1]))
    return TrainingData(features, views.astype(np.float16))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    if sys.argv[2:]:
        os.environ.update(json.loads(sys.argv[2]))  # torch has not computed yet
        room.fix_kernels = room._check_kernels = lambda: None
    print(json.dumps(train_all(Path(sys.argv[1]))))
