"""The numbers printed in the paper: paper.csv holds its tables 1 to 3; an empty value is a dash.

Source: Yu, Shen, Wang, Zhang and Torr, "Learning to Hash Naturally Sorts", IJCAI 2022, tables 1 (mAP), 2 (P@1000) and
3 (ablations of NSH on CIFAR-10). Knows nothing of our results.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

DATA_SETS = {"cifar10": "CIFAR-10", "nuswide": "NUS-WIDE", "coco": "MSCOCO"}  # params.yaml's name to the paper's
METHODS = {
    "nsh": "NSH",
    "itq": "ITQ",
    "agh": "AGH",
    "dgh": "DGH",
    "cibhash": "CIBHash",
    "greedyhash": "GreedyHash",
    "mbe": "MBE",
    "sgh": "SGH",
    "deepbit": "DeepBit",
    "mls3rduh": "MLS3RDUH",
    "tbh": "TBH",
    "cimon": "CIMON",
    "bgan": "BGAN",
    "bingan": "BinGAN",
    "hashgan": "HashGAN",
    "dvb": "DVB",
    "distillhash": "DistillHash",
    "date": "DATE",
}
SIZES = {
    "cifar10": (10_000, 50_000),
    "nuswide": (2_100, 193_734),
    "coco": (5_000, 117_218),
}  # queries, gallery


@dataclass(frozen=True)
class Row:
    """One printed number."""

    method: str
    venue: str  # with the year
    data_set: str
    bits: int
    metric: str  # "mAP@1000", "mAP@5000", "P@1000"
    value: float | None  # None: the paper prints a dash
    table: str  # "T1", "T2", "T3"


@cache
def read_paper() -> tuple[Row, ...]:
    """All 237 numbers, in the paper's order."""
    text = files("nsh.reports").joinpath("paper.csv").read_text(encoding="utf-8")
    return tuple(
        Row(
            method=row["method"],
            venue=f"{row['venue']} {row['year']}",
            data_set=row["data_set"],
            bits=int(row["bits"]),
            metric=row["metric"],
            value=float(row["value"]) if row["value"] else None,
            table=row["table"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def is_ours(method: str) -> bool:
    """Whether a method of params.yaml is NSH or a variant of it."""
    return method.startswith("nsh")


def printed(data_set: str, metric: str, *, table: str) -> dict[str, dict[int, float]]:
    """The paper's values by method and bits; empty if the paper has none.

    Args:
        data_set: a name of params.yaml.
        metric: ours, "mAP_at_1000" or "P_at_1000".
        table: "T1", "T2" or "T3".
    """
    wanted = (DATA_SETS.get(data_set), metric.replace("_at_", "@"), table)
    found: dict[str, dict[int, float]] = {}
    for row in read_paper():
        if (row.data_set, row.metric, row.table) == wanted and row.value is not None:
            found.setdefault(row.method, {})[row.bits] = row.value
    return found
