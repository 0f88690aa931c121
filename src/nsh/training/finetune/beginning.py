"""The beginning of a fine-tuning run, and what it takes from runs before it. Knows files and provenance alone.

At a constant rate a run of 8 epochs is the beginning of one of 24: a run goes on from the longest one that differs in
having fewer epochs alone, finished or not.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from nsh.errors import TrainingError
from nsh.system.files import atomic_path, read_json, write_json
from nsh.training.checkpoint import Provenance, list_differences, read_checkpoint

MARK = "run.json"  # in the folder of a run that is not finished: everything it depends on
WEIGHTS = ("best.ckpt", "last.ckpt")  # in this order: with last.ckpt a run has begun


def begin(folder: Path, provenance: Provenance) -> list[str]:
    """Mark the run in `folder` as begun, and let it go on from a shorter one.

    Args:
        folder: of the run; has no checkpoint.
        provenance: of the run.

    Returns:
        Lines for the user: the run it goes on from, and each other unfinished run of the same method and code length
        with its differences.
    """
    write_json(folder / MARK, dict(provenance))
    shorter = _find_shorter(folder, provenance)
    lines = [] if shorter is None else [_take_over(shorter, folder, provenance)]
    for path in sorted(folder.parent.glob(f"*/{MARK}")):
        other: dict[str, Any] = read_json(path)
        same = all(other.get(key) == provenance.get(key) for key in ("method", "bits"))
        if same and path.parent not in (folder, shorter):
            differences = "; ".join(list_differences(other, provenance))
            lines.append(f"{path.parent} holds another run and is left alone: {differences}")
    return lines


def _find_shorter(folder: Path, provenance: Provenance) -> Path | None:
    """The run that has come furthest of those with fewer epochs and no other difference; None: there is none."""
    reached = {}
    for path, other, position in _read_all(folder.parent):
        epochs = other["epochs"]
        if epochs < provenance["epochs"] and not list_differences({**provenance, "epochs": epochs}, other):
            reached[path] = position["epoch"], position["step"]
    return max(sorted(reached), key=reached.__getitem__, default=None)


def _read_all(folder: Path) -> Iterator[tuple[Path, Provenance, dict[str, Any]]]:
    """Folder, provenance and position of each run whose state can be read; the weights stay on the disk.

    A training of heads, which shares the cache, deletes its file at its end. A run with a damaged file says so when it
    goes on.
    """
    for path in folder.glob(f"*/{WEIGHTS[-1]}"):
        with suppress(FileNotFoundError, TrainingError):
            state = read_checkpoint(path, mmap=True)
            if "provenance" in state:  # of heads there is none
                yield path.parent, state["provenance"], state["position"]


def _take_over(shorter: Path, folder: Path, provenance: Provenance) -> str:
    for name in WEIGHTS:
        if (shorter / name).exists():
            state = read_checkpoint(shorter / name)
            with atomic_path(folder / name) as partial:
                torch.save({**state, "provenance": provenance}, partial)
    epochs = state["provenance"]["epochs"]
    return f"{folder} goes on from {shorter}, the same run with epochs: {epochs}"
