"""The record of a setting, docs/results/<setting>.csv: a line for each trial, by whoever measured it, on any machine.

Tables are drawn from it. What is measured here replaces the same trials there and joins the others, so a new method or
one more seed does not need all others again. Lines of former parameters or images stay, and no table shows them.

Of the queries' average precisions a line keeps the means over blocks of queries, which are enough to compare methods on
the same queries: batch means (Law, "Simulation Modeling and Analysis", 2015, chapter 9).
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nsh.config import Params
from nsh.data.split import read_header
from nsh.errors import DataError
from nsh.project.embeddings import Embeddings
from nsh.studies.document import RAW, commit
from nsh.studies.setting import Setting
from nsh.studies.trials import Result, Trial, read_results
from nsh.system.files import sha256_json, write_text

BLOCKS = 50
FAILURES = ("collapsed", "vanished")
"""What an adversarial training's last record may say (`nsh.objectives.adversarial.failures`)."""
FIGURES = ("mAP_at_1000", "mAP_at_1000_reranked", "P_at_1000", "P_at_H2", "train_seconds")
COLUMNS = ("method", "changed", "bits", "seed", *FIGURES, "failures", "identity", "commit", "average_precision")


@dataclass(frozen=True)
class Line:
    """A measured trial.

    Attributes:
        method: its name.
        changed: its parameters that differed from params.yaml, for a reader.
        bits: length of a code.
        seed: of the training.
        metrics: `FIGURES`.
        failures: those of `FAILURES` that its training ended in.
        identity: of all that was asked but bits and seed, see `identify`.
        commit: at which it was measured; a + behind it says that some code was not committed.
        average_precision: means over blocks of queries, in the split's order, float64 [BLOCKS]; [0] where the line was
            written before lines had them.
    """

    method: str
    changed: str
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
        return self.identity, self.bits, self.seed


def record_of(setting: Setting) -> Path:
    """The file of a setting's record."""
    return RAW / f"{setting.name}.csv"


def identify(trial: Trial, setting: Setting) -> str:
    """Digest of a trial's method and parameters, of the split, the backbone and its views; not of bits and seed."""
    header = Embeddings(setting.project.embed).header
    network = {name: header[name] for name in ("backbone", "weights", "image_size", "views")}
    split = read_header(setting.project.split)["sha256"]
    return sha256_json([trial.method, trial.parameters, split, network])[:12]


def key_of(trial: Trial, setting: Setting) -> tuple[str, int, int]:
    """The key of a trial's line."""
    return identify(trial, setting), trial.bits, trial.seed


def select(lines: Iterable[Line], trials: Sequence[Trial], setting: Setting) -> list[Line]:
    """The lines of these trials, in their order, without those that nobody has measured."""
    there = {line.key: line for line in lines}
    keys = [key_of(trial, setting) for trial in trials]
    return [there[key] for key in keys if key in there]


def record_results(setting: Setting, params: Params) -> list[Line]:
    """Write what was measured here into the record, and read all of it.

    Args:
        setting: whose record it is.
        params: of which the trials' parameters may differ.

    Raises:
        DataError: the record is damaged.
    """
    path, made = record_of(setting), commit()
    measured = [make_line(result, setting, params, commit=made) for result in read_results(setting)]
    lines = join(read_record(path), measured)
    write_record(path, lines)
    return lines


def make_line(result: Result, setting: Setting, params: Params, *, commit: str) -> Line:
    """The line of a trial that was measured here, with the code of `commit`."""
    trial, last = result.trial, result.measured.history[-1:]
    usual = params.methods.model_dump(mode="json")[trial.method]
    changed = [f"{name}={value}" for name, value in trial.parameters.items() if value != usual.get(name)]
    return Line(
        trial.method,
        " ".join(changed),
        trial.bits,
        trial.seed,
        {name: float(_six(result.metrics[name])) for name in FIGURES},
        [sign for sign in FAILURES if any(record.get(sign) for record in last)],
        identify(trial, setting),
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
    """All lines, seed by seed; of two with one key the measured one, unless the recorded one says the same."""
    lines = {line.key: line for line in recorded}
    lines |= {line.key: line for line in measured if not _is_said(line, lines.get(line.key))}
    return sorted(lines.values(), key=lambda line: (line.seed, line.bits, line.method, line.changed, line.identity))


def _is_said(line: Line, by: Line | None) -> bool:
    """Whether another line says as much but for the seconds. Lines of former tables do not: they know no queries."""
    if by is None or not len(by.average_precision):
        return False
    return all(line.metrics[name] == by.metrics[name] for name in FIGURES if name != "train_seconds")


def read_record(path: Path) -> list[Line]:
    """The lines of a record, none where there is no file.

    Raises:
        DataError: the file is damaged.
    """
    if not path.is_file():
        return []
    table = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    lines = []
    for number, values in enumerate(table, start=2):
        try:
            lines.append(_parse(values))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise DataError(
                f"found no trial in line {number} of {path} ({error}): restore the file with `git checkout -- {path}`"
            ) from error
    return lines


def _parse(values: Mapping[str, str]) -> Line:
    return Line(
        values["method"],
        values["changed"],
        int(values["bits"]),
        int(values["seed"]),
        {name: float(values[name]) for name in FIGURES},
        values["failures"].split(),
        values["identity"],
        values["commit"],
        np.array(values["average_precision"].split(), np.float64),
    )


def write_record(path: Path, lines: Iterable[Line]) -> None:
    """Write a record whole."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in lines:
        figures = [_six(line.metrics[name]) for name in FIGURES]
        blocks = " ".join(f"{value:.4f}" for value in line.average_precision)
        which = [line.method, line.changed, line.bits, line.seed]
        writer.writerow([*which, *figures, " ".join(line.failures), line.identity, line.commit, blocks])
    write_text(path, text.getvalue())


def _six(value: float) -> str:
    """As many digits as a record has."""
    return f"{value:.6g}"
