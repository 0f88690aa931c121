"""Markdown for a pull request: the results on disk beside those that another revision of git holds.

Metrics, average precisions, params.yaml and dvc.lock of both are read, and nothing is computed again.
"""

import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from nsh.config import Params
from nsh.core.nested import flatten
from nsh.errors import DataError, TrackingError
from nsh.project.paths import Pair, Project, pairs_of
from nsh.project.results import Measured, read_measured
from nsh.reports.markdown import markdown_table
from nsh.tracking.gain import measure_gain
from nsh.tracking.lineage import git_output, read_lock
from nsh.tracking.recorded import headline
from nsh.tracking.results import shared_protocol
from nsh.tracking.times import stage_times

HEADING = "# Results beside those of "  # with which every report begins
READ = ("metrics", "params.yaml", "dvc.lock")  # of the other revision
DATA_STAGES = ("download", "split")
POINTS = 20  # of a curve
SLOWEST = 5  # stages whose times are shown

Both = tuple[Measured | None, Measured]
"""A pair's results at the other revision and here."""


def compare_with_revision(folder: Path, params: Params, *, revision: str) -> str:
    """Figures with intervals, charts, changed parameters and data, and times, as Markdown with Mermaid charts.

    Args:
        folder: the project's; the pairs of its params.yaml must have been evaluated.
        params: of this params.yaml.
        revision: a branch, tag or commit whose metrics/ are committed.

    Raises:
        TrackingError: git has no such revision, or it holds no results.
        DataError: a pair has not been evaluated here.
    """
    commit = git_output(folder, "rev-parse", "--short", f"{revision}^{{commit}}")
    if not commit:
        raise TrackingError(
            f"git knows no revision {revision} here: `git fetch` may bring it, or name a branch, tag or commit"
        )
    pairs = pairs_of(params.matrix.methods, sorted(params.matrix.bits))
    with _extracted(folder, revision) as former:
        both = [(_read(former, pair), read_measured(Project(folder).of(pair))) for pair in pairs]
        parts = [
            f"{HEADING}{revision} ({commit})",
            _figures(both),
            *_charts(both),
            _section("Parameters", _parameters(former, folder)),
            _section("Data", _data(former, folder)),
        ]
    return "\n\n".join([*parts, *_times(stage_times(folder, params))]) + "\n"


@contextmanager
def _extracted(folder: Path, revision: str) -> Iterator[Path]:
    """A temporary folder with what `READ` names at `revision`."""
    command = ["git", "archive", "--format=tar", revision, "--", *READ]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if done.returncode:
        raise TrackingError(
            f"{revision} holds no results to compare with ({done.stderr.decode().strip()}): name a revision whose "
            f"{', '.join(READ)} are committed"
        )
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(scratch, filter="data")
        yield Path(scratch)


def _read(former: Path, pair: Pair) -> Measured | None:
    try:
        return read_measured(Project(former).of(pair))
    except (DataError, KeyError):  # not in that matrix, or written by an earlier version of nsh
        return None


def _are_alike(before: Measured | None, after: Measured) -> bool:
    """Whether both were measured on one split, with one k and protocol."""
    return before is not None and shared_protocol(before.protocol) == shared_protocol(after.protocol)


def _figures(both: Sequence[Both]) -> str:
    rows = [[after.key, *_row(before, after)] for before, after in both]
    table = markdown_table(["", "figure", "there", "here", "difference [95 %]"], rows)
    return f"{table}\n\nIntervals are over the queries; another training would differ more."


def _row(before: Measured | None, after: Measured) -> list[str]:
    figure = headline(after.metrics)
    here = f"{after.metrics[figure]:.4f}" if figure else ""
    if before is None:
        return [figure, "", here, "new"]
    there = f"{before.metrics[figure]:.4f}" if figure in before.metrics else ""
    if not _are_alike(before, after):
        return [figure, there, here, "not comparable: measured differently"]
    gain = measure_gain(after.average_precision, before.average_precision)
    if gain is not None:
        return [figure, there, here, f"{gain}"]
    return [figure, there, here, f"{after.metrics[figure] - before.metrics[figure]:+.4f}" if there else ""]


def _charts(both: Sequence[Both]) -> list[str]:
    """The figures of all pairs, and the precision at k of the best; those that can be compared."""
    alike = [(before, after) for before, after in both if before is not None and _are_alike(before, after)]
    alike = [(before, after) for before, after in alike if headline(after.metrics) in before.metrics]
    if not alike:
        return []
    figure = headline(alike[0][1].metrics)
    there, here = ([round(item.metrics[figure], 4) for item in side] for side in zip(*alike, strict=True))
    keys = json.dumps([after.key for _, after in alike])
    charts = [_chart(f"{figure}: bars here, line there", keys, f"bar {here}", f"line {there}")]
    before, after = max(alike, key=lambda item: item[1].metrics[figure])
    length = min(len(item.curves["precision_at_k"]["k"]) for item in (before, after))
    if length > 1:
        ranks = np.linspace(0, length - 1, min(POINTS, length)).round().astype(int)
        there, here = (item.curves["precision_at_k"]["precision"][ranks].round(4).tolist() for item in (before, after))
        title = f"Precision at k, {after.key}: first line there, second here"
        charts.append(_chart(title, f'"k" 1 --> {length}', f"line {there}", f"line {here}"))
    return charts


def _chart(title: str, axis: str, *series: str) -> str:
    lines = [f'title "{title}"', f"x-axis {axis}", "y-axis 0 --> 1", *series]
    return "\n".join(["```mermaid", "xychart-beta", *(f"    {line}" for line in lines), "```"])


def _parameters(former: Path, folder: Path) -> list[list[str]]:
    """The values of params.yaml that differ: key, there, here."""
    there, here = (flatten(yaml.safe_load((at / "params.yaml").read_text(encoding="utf-8"))) for at in (former, folder))
    return _differences(there, here)


def _data(former: Path, folder: Path) -> list[list[str]]:
    """The outputs of the stages that make images and split, where their digests differ."""
    there, here = (_digests(read_lock(at)) for at in (former, folder))
    return _differences(there, here)


def _digests(lock: Mapping[str, Any]) -> dict[str, str]:
    outputs = [output for stage in DATA_STAGES for output in lock.get(stage, {}).get("outs", [])]
    return {output["path"]: f"{output['md5'][:12]}, {output.get('nfiles', 1)} files" for output in outputs}


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[list[str]]:
    keys = [key for key in {**there, **here} if there.get(key) != here.get(key) or (key in there) != (key in here)]
    return [[key, *(str(side[key]) if key in side else "" for side in (there, here))] for key in keys]


def _section(title: str, rows: Sequence[Sequence[str]]) -> str:
    return f"## {title}\n\n{markdown_table(['', 'there', 'here'], rows) if rows else 'The same.'}"


def _times(seconds: Mapping[str, float]) -> list[str]:
    """The slowest stages' times, slowest first."""
    if not seconds:
        return []
    rows = [[stage, f"{taken:.1f}"] for stage, taken in list(seconds.items())[:SLOWEST]]
    rows.append(["all stages", f"{sum(seconds.values()):.1f}"])
    return [f"## Time\n\n{markdown_table(['stage', 'seconds'], rows)}"]
