"""One cell, measured in a process of its own: fit a head on the embeddings, encode, search, and leave the figures.

    python -m nsh.studies.measure <setting's folder> <folder to leave> <code's digest> '{"method": ..., ...}'

It leaves result.json, average_precision.npy (float64 [queries]), query.npy (packed codes) and the curves. One thread,
no GPU: the figures are the same wherever they are measured, and the seconds compare. Knows no cache and no table.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nsh.core.codes import binarize, pack
from nsh.core.metrics.evaluation import Evaluation, evaluate
from nsh.core.metrics.tables import to_csv
from nsh.data.split import read_part
from nsh.errors import DataError
from nsh.methods import HashHead, TrainingData, create
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.system.code import code_digest
from nsh.system.command import run_command
from nsh.system.files import write_json, write_text
from nsh.system.folders import atomic_folder
from nsh.training.loop import CachedViewLoop
from nsh.training.reproducible import reproducible

K = 1000  # ranks looked at, as in the paper
ROWS = 4096  # embeddings that go through a head at once
Codes = dict[str, NDArray[np.uint8]]


@dataclass(frozen=True)
class Measurement:
    """What one cell is found to be."""

    history: list[dict[str, float]]  # as the method reports it
    seconds: float  # of the fit alone
    codes: Codes  # packed, of "query" and "gallery"
    evaluation: Evaluation


def main() -> None:
    """Measure the cell that the command line describes."""
    workspace, folder, code, request = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
    torch.set_num_threads(1)
    measured = measure(workspace, **request)
    if digest_of(request["method"]) != code:
        raise DataError("the code was changed while the cells were measured: run the same command again")
    with atomic_folder(folder) as new:
        figures = measured.evaluation.metrics | {"train_seconds": round(measured.seconds, 2)}
        write_json(new / "result.json", {**request, **figures, "history": measured.history})
        np.save(new / "average_precision.npy", measured.evaluation.average_precision)
        np.save(new / "query.npy", measured.codes["query"])
        for name, table in measured.evaluation.curves.items():
            write_text(new / f"{name}.csv", to_csv(table))


def digest_of(method: str) -> str:
    """Digest of the code that a cell's result depends on."""
    return code_digest(["nsh.studies.measure", f"nsh.methods.{method}"])


def measure(workspace: Path, *, method: str, parameters: Mapping[str, Any], bits: int, seed: int) -> Measurement:
    """Fit, encode and evaluate.

    Args:
        workspace: the setting's folder, with data/split and data/embed.
        method: its name.
        parameters: its whole block of params.yaml.
        bits: length of a code.
        seed: of the training.

    Raises:
        NshError: the method cannot be trained on this data with these parameters.
    """
    project = Project(workspace)
    embeddings, history = Embeddings(project.embed), list[dict[str, float]]()
    data = TrainingData(*embeddings.read_training())
    # A training that goes on from a checkpoint would not know its seconds: partial state dies with the process.
    with TemporaryDirectory() as cache:
        loop = CachedViewLoop(cache=Path(cache), threads=1)
        start = time.monotonic()
        with reproducible(1):
            head = create(method, parameters).fit(data, bits=bits, seed=seed, report=history.append, loop=loop)
        seconds = time.monotonic() - start
    parts = {part: read_part(project.split, part).labels for part in ("query", "gallery")}
    codes = {part: encode(head, embeddings.read(part)) for part in parts}
    found = evaluate(codes["query"], codes["gallery"], parts["query"], parts["gallery"], bits=bits, k=K)
    return Measurement(history, seconds, codes, found)


@torch.inference_mode()
def encode(head: HashHead, embeddings: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Packed codes of embeddings float32 [n, dim], by the one bit rule."""
    head.eval()
    blocks = [
        pack(binarize(head(torch.from_numpy(np.array(embeddings[start : start + ROWS]))).numpy()))
        for start in range(0, len(embeddings), ROWS)
    ]
    return np.concatenate(blocks)


def end_with_parent() -> None:
    """Stop this process when its standard input ends, which is when whoever started it is no more."""

    def wait() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    run_command(main)
