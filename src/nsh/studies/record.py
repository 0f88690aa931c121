"""The record of a table, docs/results/<setting>.csv: a line for each trial, by whoever measured it, on any machine.

A table is drawn from its record. What is measured here replaces the same trials there and joins the others, so a new
method or one more seed does not need all others again. Lines of other parameters or other images are left out.

Of the queries' average precisions a line keeps the means over blocks of queries, which are enough to compare methods on
the same queries: batch means (Law, "Simulation Modeling and Analysis", 2015, chapter 9).
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.data.split import read_header
from nsh.errors import DataError
from nsh.project.embeddings import Embeddings
from nsh.studies.document import FIGURES
from nsh.studies.setting import Setting
from nsh.studies.trials import Result
from nsh.system.files import sha256_json, write_text

BLOCKS = 50
FAILURES = ("collapsed", "vanished")
"""What an adversarial training's last record may say (`nsh.objectives.adversarial.failures`)."""
COLUMNS = ("method", "bits", "seed", *FIGURES, "failures", "identity", "commit", "average_precision")


@dataclass(frozen=True)
class Line:
    """A measured trial.

    Attributes:
        row: of the table.
        bits: length of a code.
        seed: of the training.
        metrics: the figures of `nsh.studies.document.FIGURES`.
        failures: those of `FAILURES` that its training ended in.
        identity: of what was asked but for bits and seed, see `identify`.
        commit: at which it was measured.
        average_precision: means over blocks of queries, in the split's order, float64 [BLOCKS]; [0] where the line was
            written before lines had them.
    """

    row: str
    bits: int
    seed: int
    metrics: Mapping[str, float]
    failures: Sequence[str]
    identity: str
    commit: str
    average_precision: NDArray[np.float64]

    @property
    def key(self) -> tuple[str, int, int]:
        """What no two lines share."""
        return self.row, self.bits, self.seed


def identify(method: str, parameters: Mapping[str, Any], *, setting: Setting) -> str:
    """Digest of a method, its parameters, the split, the backbone and its views: lines of one row share it."""
    header = Embeddings(setting.project.embed).header
    network = {name: header[name] for name in ("backbone", "weights", "image_size", "views")}
    split = read_header(setting.project.split)["sha256"]
    return sha256_json([method, parameters, split, network])[:12]


def make_line(row: str, result: Result, setting: Setting, *, commit: str) -> Line:
    """The line of a trial that was measured here, with the code of `commit`."""
    trial, last = result.trial, result.measured.history[-1:]
    return Line(
        row,
        trial.bits,
        trial.seed,
        {name: float(_six(result.metrics[name])) for name in FIGURES},
        [sign for sign in FAILURES if any(record.get(sign) for record in last)],
        identify(trial.method, trial.parameters, setting=setting),
        commit,
        average_blocks(result.average_precision),
    )


def average_blocks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means over `BLOCKS` runs of values, as equal in length as can be; float64 [n] -> [min(n, BLOCKS)].

    Examples:
        >>> average_blocks(np.arange(100.0))[:3]
        array([0.5, 2.5, 4.5])
    """
    blocks = np.array_split(values, min(len(values), BLOCKS))
    return np.array([block.mean() for block in blocks])


def join(recorded: Iterable[Line], measured: Iterable[Line]) -> list[Line]:
    """All lines; of two with one key the measured one, unless the recorded one says the same."""
    lines = {line.key: line for line in recorded}
    return list((lines | {line.key: line for line in measured if not _is_said(line, lines.get(line.key))}).values())


def _is_said(line: Line, by: Line | None) -> bool:
    """Whether another line says as much. Lines of former tables do not: they know no queries."""
    if by is None or not len(by.average_precision):
        return False
    return (line.identity, line.metrics) == (by.identity, by.metrics)


def read_record(path: Path) -> list[Line]:
    """The lines of a record, none where there is no file.

    Lines without an identity, of tables made before there were records, are left out.

    Raises:
        DataError: the file is damaged.
    """
    if not path.is_file():
        return []
    table = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    lines = []
    for number, values in enumerate(table, start=2):
        try:
            if values.get("identity"):
                lines.append(_parse(values))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise DataError(
                f"found no trial in line {number} of {path} ({error}): restore the file with `git checkout -- {path}`"
            ) from error
    return lines


def _parse(values: Mapping[str, str]) -> Line:
    return Line(
        values["method"],
        int(values["bits"]),
        int(values["seed"]),
        {name: float(values[name]) for name in FIGURES},
        values["failures"].split(),
        values["identity"],
        values["commit"],
        np.array(values["average_precision"].split(), np.float64),
    )


def write_record(path: Path, lines: Iterable[Line]) -> None:
    """Write a record whole, seed by seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in lines:
        figures = [_six(line.metrics[name]) for name in FIGURES]
        blocks = " ".join(f"{value:.4f}" for value in line.average_precision)
        writer.writerow([*line.key, *figures, " ".join(line.failures), line.identity, line.commit, blocks])
    write_text(path, text.getvalue())


def _six(value: float) -> str:
    """As many digits as a record has."""
    return f"{value:.6g}"
