"""Where a training run keeps its partial state, and the name under which it finds it again. Knows no method."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nsh.core.nested import flatten
from nsh.objectives.base import TrainingData
from nsh.system.code import code_digest
from nsh.system.files import sha256_json

Facts = Mapping[str, Any]
"""Everything a run's result depends on, by name; blocks may be nested, and JSON can write it all."""


def collect_facts(identity: Mapping[str, Any], data: TrainingData, *, loop: str) -> Facts:
    """`identity`, and digests of the data and of the code of the module `loop`, and torch's version."""
    return {**identity, "data": _digest_data(data), "code": code_digest([loop]), "torch": str(torch.__version__)}


def fingerprint(facts: Facts) -> str:
    """SHA-256 of `facts`: a run that differs in any of them never goes on from another one's checkpoint."""
    return sha256_json(facts)


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
