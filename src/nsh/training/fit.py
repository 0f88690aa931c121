"""Fits a method and writes its head, history and changes of the backbone. Knows no method."""

import time
from dataclasses import dataclass

from nsh.methods import HashHead, Loop, Method, Report, TrainingData
from nsh.objectives.heads.linear import to_bytes
from nsh.project.paths import PairFiles
from nsh.system.files import write_bytes, write_json
from nsh.training.reproducible import reproducible


@dataclass(frozen=True)
class Trained:
    """A fitted head.

    Attributes:
        head: from embeddings to logits.
        history: one record an epoch or iteration, at least one, with "loss".
        seconds: the time of the fit.
    """

    head: HashHead
    history: list[dict[str, float]]
    seconds: float

    def write(self, files: PairFiles, *, changes: bytes) -> None:
        """Write head, history and `changes`, the changed tensors of the backbone (see `nsh.backbones.finetuned`)."""
        write_bytes(files.head, to_bytes(self.head))
        write_bytes(files.backbone, changes)
        write_json(files.history, [_round(record) for record in self.history])

    def __str__(self) -> str:
        losses = f"{self.history[0]['loss']:.4f} to {self.history[-1]['loss']:.4f}"
        return f"loss {losses} in {len(self.history)} rounds, {self.seconds:.1f} s"


def fit(
    method: Method, data: TrainingData, *, bits: int, seed: int, threads: int, loop: Loop, report: Report
) -> Trained:
    """Fit a head.

    Args:
        method: the method.
        data: the training data.
        bits: length of a code.
        seed: seeds all random numbers.
        threads: torch's threads; heads are equal only for equal threads.
        loop: trains methods that learn by gradient.
        report: gets every record of the history at once.

    Raises:
        TrainingError: the method cannot be trained on this data.
    """
    history: list[dict[str, float]] = []

    def keep(record: dict[str, float]) -> None:
        report(record)
        history.append(record)

    start = time.monotonic()
    with reproducible(threads):
        head = method.fit(data, bits=bits, seed=seed, report=keep, loop=loop)
    return Trained(head, history, time.monotonic() - start)


def _round(record: dict[str, float]) -> dict[str, float]:
    """Round to six significant digits: further digits of float32 are rounding errors."""
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in record.items()}
