"""Every method, small enough for a test, with the variants that change what it is, and features like a network's."""

from pathlib import Path

import numpy as np

from nsh.config import read_params
from nsh.methods import METHODS, Method, create
from nsh.objectives.sorting.ablations import ABLATIONS

PARAMETERS = read_params(Path(__file__).parents[2] / "params.yaml").methods.model_dump()
SMALL = {
    "nsh": {"epochs": 1, "batch": 10, "d_z": 8},
    "cibhash": {"epochs": 2, "batch": 10, "hidden": 16},
    "greedyhash": {"epochs": 2, "batch": 10},
    "mbe": {"epochs": 2, "batch": 10},
    "sdc": {"epochs": 2, "batch": 10},
    "crovca": {"epochs": 2, "batch": 20},
    "sgh": {"epochs": 2, "batch": 10},
    "deepbit": {"epochs": 2, "batch": 10},
    "mls3rduh": {"epochs": 2, "batch": 10},
    "tbh": {"epochs": 2, "batch": 10, "hidden": 16, "latent": 8},
    "agh": {"anchors": 30},
    "dgh": {"anchors": 30},
    "cimon": {"epochs": 2, "batch": 10, "clusters": 6},
    "bgan": {"epochs": 2, "batch": 10, "near": 5, "alike": 5, "hidden": 16},
    "bingan": {"epochs": 2, "batch": 10, "hidden": 16},
    "hashgan": {"epochs": 2, "batch": 10, "hidden": 16},
    "dvb": {"epochs": 2, "batch": 10, "hidden": 16, "latent": 8, "centres": 6},
    "distillhash": {"epochs": 2, "batch": 10, "neighbours": 4},
    "date": {"epochs": 2, "batch": 10},
    "oh": {"epochs": 2, "batch": 10, "hidden": 16, "d_z": 8, "queue": 50},
    "nsh_plus": {"epochs": 2, "batch": 20, "d_z": 8, "queue": 50, "neighbours": 0.03, "hidden": 16},
    "nsh_nested": {"epochs": 2, "batch": 20, "d_z": 8, "queue": 50, "neighbours": 0.03, "hidden": 16},
}
"""What of params.yaml is too large for the images here."""
VARIANTS = {f"nsh {ablation}": {"ablation": ablation} for ablation in ABLATIONS} | {
    "nsh hidden": {"hidden": 16, "init": "random"},
    "nsh readings": {"similarity": "product", "quantiser": "squared", "symmetric": True, "tau_s": "d_b"},
}
"""Methods whose parameters change what they are, or the shape of their heads."""
NAMES = [*METHODS, *VARIANTS]
BITS, DIM = 12, 24


def draw_features(count=160, dim=DIM, seed=0):
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(6, dim)) * 2
    return np.abs(centres[np.arange(count) % 6] + generator.normal(size=(count, dim))).astype(np.float32)


def create_small(name: str, **changes: object) -> Method:
    """The method or variant `name` of `NAMES`."""
    base = name.partition(" ")[0]
    return create(base, PARAMETERS[base] | SMALL.get(base, {}) | VARIANTS.get(name, {}) | changes)
