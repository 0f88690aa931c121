"""Train heads and a network in a process of its own, and print digests of what came of it: JSON, by name.

    python -m tests.training.kernels_program <folder> [free]

With `free` torch computes with whatever kernels the environment and the processor choose.
"""

import hashlib
import json
import sys
from pathlib import Path

from nsh.core import kernels

if sys.argv[2:] == ["free"]:
    kernels.fix_kernels = lambda: None

import torch
from tests.methods.test_all_methods import draw_features, fit
from tests.training.finetune import tiny

from nsh.methods.heads import to_bytes
from nsh.training import reproducible as room

METHODS = ["nsh", "nsh readings", "itq", "sh", "agh", "dgh", "cibhash", "cimon", "nsh_plus"]


def main() -> None:
    folder, features, found = Path(sys.argv[1]), draw_features(), {}
    if sys.argv[2:] == ["free"]:
        room._check_kernels = lambda: None
    for name in METHODS:
        with room.reproducible(1):
            _, head, history = fit(name, features, folder / name)
        found[name] = digest(to_bytes(head))
        found[f"history of {name}"] = digest(json.dumps(history).encode())
    loop, records = tiny.make_loop(folder / "images"), []
    weights = tiny.all_weights(loop, tiny.fit(loop, tiny.make_tiny().data, records=records))
    found["fine-tuning"] = digest(b"".join(value.numpy().tobytes() for value in weights.values()))
    found["history of fine-tuning"] = digest(json.dumps(records).encode())
    print(json.dumps({"kernels": torch.backends.cpu.get_cpu_capability(), "found": found}))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main()
