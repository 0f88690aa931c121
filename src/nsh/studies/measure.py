"""Measures one trial in a process of its own, by the functions of the stages train, export, encode and evaluate.

    python -m nsh.studies.measure <setting's folder> <folder to leave> <code's digest> '{"method": ..., ...}'

`nsh.studies.trials` describes what it leaves. The encoder is large, can be made again and is deleted. One
thread, no GPU: the figures are the same wherever they are measured, and the seconds compare.
"""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nsh.config import read_params
from nsh.core.manifest import read_codes
from nsh.errors import DataError
from nsh.methods import create
from nsh.project.paths import Pair, Project
from nsh.stages.encode import encode_split
from nsh.stages.evaluate import evaluate_codes
from nsh.stages.export import export_encoder
from nsh.stages.train import train_head
from nsh.studies.protocol import K, digest_of
from nsh.system.command import run_command
from nsh.system.files import write_json
from nsh.system.folders import CACHE, atomic_folder
from nsh.system.parent import end_with_parent
from nsh.training.loop import CachedViewLoop


def main() -> None:
    """Measure the trial that the command line describes."""
    setting, folder, code, request = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
    with atomic_folder(folder) as new:
        seconds = measure(Project(setting), Project(new), **request)
        write_json(new / "trial.json", {**request, "train_seconds": round(seconds, 2)})
        if digest_of(request["method"]) != code:
            raise DataError("the code was changed while trials were measured: run the same command again")


def measure(
    setting: Project, new: Project, *, method: str, parameters: Mapping[str, Any], bits: int, seed: int
) -> float:
    """Train, export, encode and evaluate, and keep what is small.

    Args:
        setting: has params.yaml and data/.
        new: an empty folder, for the files of the trial.
        method: its name.
        parameters: its whole block of params.yaml.
        bits: length of a code.
        seed: of the training.

    Returns:
        Seconds that the fit took.

    Raises:
        NshError: the method cannot be trained on this data with these parameters, or its encoder is not torch's.
    """
    params, files = read_params(setting.folder / "params.yaml"), new.of(Pair(method, bits))
    # Partial state dies with the folder: a training that goes on from a checkpoint would not know its seconds.
    loop = CachedViewLoop(cache=new.cache("train"), threads=1)
    trained = train_head(
        setting, files, method=create(method, parameters), seed=seed, threads=1, loop=loop, report=lambda record: None
    )
    export_encoder(setting, files, parameters=parameters, data_set=params.dataset, threads=1)
    encode_split(setting, files, data_set=params.dataset, device="cpu", threads=1, batch=params.encode.batch)
    evaluate_codes(setting, files, k=K, threads=1)
    for part in ("query", "gallery"):
        np.save(new.folder / f"{part}.npy", read_codes(files.codes / part).codes)
    files.parity.rename(new.folder / "parity.json")
    for name in ("models", "codes", CACHE.parts[0]):
        shutil.rmtree(new.folder / name)
    return trained.seconds


if __name__ == "__main__":
    end_with_parent()
    run_command(main)
