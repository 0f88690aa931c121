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
from tests.methods.small import BITS, NAMES, create_small, draw_features
from tests.training.finetune import tiny

from nsh.methods import HashHead, TrainingData
from nsh.objectives.heads.linear import to_bytes
from nsh.training import reproducible as room
from nsh.training.loop import CachedViewLoop


def train_all(folder: Path) -> dict[str, str]:
    """Digests of heads and histories, and torch's word for its kernels."""
    found = {"kernels": torch.backends.cpu.get_cpu_capability()}
    for name in NAMES:
        head, history = train(name, folder / name)
        found |= {name: digest(to_bytes(head)), f"history of {name}": digest(json.dumps(history).encode())}
    loop, history = tiny.make_loop(folder / "images"), []
    weights = tiny.all_weights(loop, tiny.fit(loop, tiny.make_tiny().data, records=history, epochs=1))
    tuned = b"".join(value.numpy().tobytes() for value in weights.values())
    return found | {"fine-tuning": digest(tuned), "history of fine-tuning": digest(json.dumps(history).encode())}


def train(name: str, folder: Path) -> tuple[HashHead, list[dict[str, float]]]:
    """The head of a method, and its history."""
    history: list[dict[str, float]] = []
    with room.reproducible(1):
        loop = CachedViewLoop(cache=folder, threads=1)
        return create_small(name).fit(draw_data(), bits=BITS, seed=0, report=history.append, loop=loop), history


def draw_data() -> TrainingData:
    features = draw_features()
    views = features[:, None] + 0.2 * np.random.default_rng(1).normal(size=(len(features), 3, features.shape[1]))
    return TrainingData(features, views.astype(np.float16))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    if sys.argv[2:]:
        os.environ.update(json.loads(sys.argv[2]))  # torch has not computed yet
        room.fix_kernels = room._check_kernels = lambda: None
    print(json.dumps(train_all(Path(sys.argv[1]))))
