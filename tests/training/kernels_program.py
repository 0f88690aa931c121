"""Train heads and a network, also in a process of its own, and print digests of what came of it.

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
from tests.training.finetune import tiny

from nsh.config import read_params
from nsh.methods import TrainingData, create
from nsh.objectives.heads.linear import to_bytes
from nsh.training import reproducible as room
from nsh.training.loop import CachedViewLoop

SMALL = {
    "nsh": {"epochs": 1, "batch": 10, "d_z": 8},
    "itq": {},
    "sh": {},
    "agh": {"anchors": 30},
    "dgh": {"anchors": 30},
    "cibhash": {"epochs": 1, "batch": 10, "hidden": 16},
    "cimon": {"epochs": 1, "batch": 10, "clusters": 6},
    "nsh_plus": {"epochs": 1, "batch": 20, "d_z": 8, "queue": 50, "neighbours": 0.03, "hidden": 16},
}
"""The methods, and what of params.yaml is too large for the images here."""


def train_all(folder: Path) -> dict[str, str]:
    """Digests of heads and histories, and torch's word for its kernels."""
    parameters = read_params(Path(__file__).parents[2] / "params.yaml").methods.model_dump()
    found = {"kernels": torch.backends.cpu.get_cpu_capability()}
    for name, small in SMALL.items():
        method, history = create(name, parameters[name] | small), []
        with room.reproducible(1):
            loop = CachedViewLoop(cache=folder / name, threads=1)
            head = method.fit(draw_data(), bits=12, seed=0, report=history.append, loop=loop)
        found |= {name: digest(to_bytes(head)), f"history of {name}": digest(json.dumps(history).encode())}
    loop, history = tiny.make_loop(folder / "images"), []
    weights = tiny.all_weights(loop, tiny.fit(loop, tiny.make_tiny().data, records=history, epochs=1))
    tuned = b"".join(value.numpy().tobytes() for value in weights.values())
    return found | {"fine-tuning": digest(tuned), "history of fine-tuning": digest(json.dumps(history).encode())}


def draw_data() -> TrainingData:
    generator = np.random.default_rng(0)
    centres = 2 * generator.normal(size=(6, 24))
    features = np.abs(centres[np.arange(160) % 6] + generator.normal(size=(160, 24)))
    views = features[:, None] + 0.2 * generator.normal(size=(160, 3, 24))
    return TrainingData(features.astype(np.float32), views.astype(np.float16))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    if sys.argv[2:]:
        os.environ.update(json.loads(sys.argv[2]))  # torch has not computed yet
        room.fix_kernels = room._check_kernels = lambda: None
    print(json.dumps(train_all(Path(sys.argv[1]))))
