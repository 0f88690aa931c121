"""Writes results.csv and the CSV files of charts: the figures and curves of all pairs for other programs.

Curves are merged so that one DVC chart shows all pairs.
"""

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from nsh.project.results import Measured
from nsh.reports import paper
from nsh.reports.heading import Heading

POINTS = 200  # of a merged curve


def results_csv(measured: Sequence[Measured], heading: Heading) -> str:
    """One row for the float embedding, then one row a pair, with every figure."""
    names = list(dict.fromkeys(name for item in measured for name in item.metrics))
    rows: list[dict[str, Any]] = [{"method": "embedding", **heading.ceiling}] if heading.ceiling else []
    for item in measured:
        printed = {f"paper_{name}": value for name, value in printed_for(item, heading).items()}
        rows.append({"method": item.method, "bits": item.bits} | item.metrics | printed)
    columns = ["method", "bits", *names, *dict.fromkeys(n for row in rows for n in row if n.startswith("paper_"))]
    return _to_csv(columns, [[_six(row.get(column, "")) for column in columns] for row in rows])


def merged_curve(measured: Sequence[Measured], curve: str, *, x: str, y: str) -> str:
    """One CSV of a curve of all pairs, at most `POINTS` rows each: method, bits, x, y; for DVC's charts."""
    rows: list[list[Any]] = []
    for item in measured:
        columns = item.curves[curve]
        for row in _spread(len(columns[x])):
            rows.append([item.method, item.bits, _six(columns[x][row]), _six(columns[y][row])])
    return _to_csv(["method", "bits", x, y], rows)


def merged_training(measured: Sequence[Measured]) -> str:
    """One CSV of every pair's loss by epoch."""
    rows = [[item.method, item.bits, row["epoch"], _six(row["loss"])] for item in measured for row in item.history]
    return _to_csv(["method", "bits", "epoch", "loss"], rows)


def printed_for(item: Measured, heading: Heading) -> dict[str, float]:
    """The paper's figures for this method, length, data set and metric."""
    method, found = paper.METHODS.get(item.method, ""), {}
    for metric, table in ((f"mAP_at_{heading.k}", "T1"), (f"P_at_{heading.k}", "T2")):
        value = paper.printed(heading.data_set, metric, table=table).get(method, {}).get(item.bits)
        if value is not None:
            found[metric] = value
    return found


def _spread(count: int) -> list[int]:
    """At most `POINTS` of `count` rows, evenly spaced in the logarithm of their number, including first and last."""
    if count <= POINTS:
        return list(range(count))
    return [int(row) - 1 for row in np.unique(np.geomspace(1, count, POINTS).round())]


def _to_csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def _six(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
