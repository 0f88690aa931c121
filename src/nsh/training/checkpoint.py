"""Where a training run keeps its partial state, and the name under which it finds it again. Knows no method."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nsh.core.nested import flatten
from nsh.objectives.base import TrainingData

Facts = Mapping[str, Any]
"""Everything a run's result depends on, by name; blocks may be nested, and JSON can write it all."""


def collect_facts(identity: Mapping[str, Any], data: TrainingData) -> Facts:
    """`identity`, and digests of the data and of the code, and torch's version."""
    return {**identity, "data": _digest_data(data), "code": _digest_code(), "torch": str(torch.__version__)}


def fingerprint(facts: Facts) -> str:
    """SHA-256 of `facts`: a run that differs in any of them never goes on from another one's checkpoint."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def list_differences(found: Facts, wanted: Facts) -> list[str]:
    """One line for each fact in which two runs differ, named by its keys with dots: "seed: 0 there, 1 here"."""
    there, here = flatten(found), flatten(wanted)
    keys = [key for key in sorted(there.keys() | here.keys()) if there.get(key) != here.get(key)]
    return [f"{key}: {_show(there.get(key))} there, {_show(here.get(key))} here" for key in keys]


def _show(value: Any) -> str:
    return f"{value}"[:12]  # of a digest the beginning tells enough


def _digest_data(data: TrainingData) -> str:
    digest = hashlib.sha256()
    held: list[NDArray[Any]] = [data.features, data.views]
    if data.rows is not None:
        held.append(data.rows)
    for array in held:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _digest_code() -> str:
    """Of the files that decide how a head is trained: this room, the methods and what they share."""
    package = Path(__file__).parents[1]
    sources = sorted(path for room in ("methods", "objectives", "training") for path in (package / room).rglob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
