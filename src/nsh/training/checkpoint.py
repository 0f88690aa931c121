"""The partial state of a training run: its provenance, and the name of its checkpoint. Knows no method."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nsh.core.nested import flatten
from nsh.errors import TrainingError
from nsh.objectives.base import TrainingData
from nsh.system.code import code_digest
from nsh.system.files import sha256_json

Provenance = Mapping[str, Any]
"""Everything that decides the result of a run, by name; mappings may be nested, and JSON can represent it."""


def collect_provenance(identity: Mapping[str, Any], data: TrainingData, *, loop: str) -> Provenance:
    """`identity`, and digests of the data and of the code of the module `loop`, and torch's version."""
    return {**identity, "data": _digest_data(data), "code": code_digest([loop]), "torch": str(torch.__version__)}


def fingerprint(provenance: Provenance) -> str:
    """SHA-256 of `provenance`: a run that differs in any value never continues from the checkpoint of another."""
    return sha256_json(provenance)


def read_checkpoint(path: Path, *, device: str = "cpu", mmap: bool = False) -> dict[str, Any]:
    """What a run has written to `path`, on `device`; with `mmap` its tensors stay on the disk until they are used.

    Raises:
        FileNotFoundError: there is no such file.
        TrainingError: the file is damaged.
    """
    try:
        return dict(torch.load(path, map_location=device, mmap=mmap, weights_only=True))
    except FileNotFoundError:
        raise
    except Exception as error:  # unpickling garbage raises nearly every built-in exception
        raise TrainingError(
            f"{path} is damaged ({type(error).__name__}): delete {path.parent} to begin again"
        ) from error


def list_differences(found: Provenance, wanted: Provenance) -> list[str]:
    """One line for each value in which two runs differ, named by its keys with dots: "seed: 0 there, 1 here"."""
    there, here = flatten(found), flatten(wanted)
    keys = [key for key in sorted(there.keys() | here.keys()) if there.get(key) != here.get(key)]
    return [f"{key}: {_show(there.get(key))} there, {_show(here.get(key))} here" for key in keys]


def _show(value: Any) -> str:
    return f"{value}"[:12]  # the beginning of a digest is enough


def _digest_data(data: TrainingData) -> str:
    digest = hashlib.sha256()
    held: list[NDArray[Any]] = [data.features, data.views]
    if data.rows is not None:
        held.append(data.rows)
    for array in held:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()
