"""The files of a split: three parts in parquet, and a header. Knows nothing of how it was drawn.

train.parquet, query.parquet, gallery.parquet    id, labels, sha256; train is drawn out of the gallery
split.json                                       the header: data_set, classes, seed, counts, ..., sha256
unreadable.jsonl                                 {id, error} of every image left out
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nsh.errors import DataError
from nsh.project.paths import SPLIT_HEADER
from nsh.system.files import read_json, write_json
from nsh.system.folders import atomic_folder

PARTS = ("train", "query", "gallery")

_UNREADABLE = "unreadable.jsonl"
_SCHEMA = pa.schema([("id", pa.string()), ("labels", pa.list_(pa.int32())), ("sha256", pa.string())])


@dataclass(frozen=True, kw_only=True)
class Rows:
    """One part before it is written: ids, class rows of each (None where nothing is labelled), content digests."""

    ids: list[str]
    labels: list[tuple[int, ...]] | None
    sha256: list[str]


@dataclass(frozen=True, kw_only=True)
class Split:
    """A complete split.

    Attributes:
        data_set: name of the data set.
        classes: names of the classes, or None.
        seed: what it was drawn with.
        parts: rows of "train", "query" and "gallery".
        unreadable: (id, reason) of every image left out.
        duplicates_dropped: images left out of the gallery because a query has the same content.
    """

    data_set: str
    classes: tuple[str, ...] | None
    seed: int
    parts: Mapping[str, Rows]
    unreadable: list[tuple[str, str]]
    duplicates_dropped: int


@dataclass(frozen=True, kw_only=True)
class SplitPart:
    """One part as read back.

    Attributes:
        ids: n unique ids, in the part's order.
        labels: bool [n, classes], True where the image belongs to the class; None where nothing is labelled.
        sha256: n digests of the images' published bytes.
    """

    ids: list[str]
    labels: NDArray[np.bool_] | None
    sha256: list[str]


def write(split: Split, directory: Path) -> None:
    """Write the split to `directory`, completely or not at all; the same split gives the same bytes."""
    with atomic_folder(directory) as folder:
        for part in PARTS:
            rows = split.parts[part]
            columns = {"id": rows.ids, "labels": _labels(rows), "sha256": rows.sha256}
            pq.write_table(pa.table(columns, schema=_SCHEMA), folder / f"{part}.parquet")
        lines = [json.dumps({"id": name, "error": error}) for name, error in split.unreadable]
        (folder / _UNREADABLE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        write_json(folder / SPLIT_HEADER, _header(split))


def read_header(directory: Path) -> dict[str, Any]:
    """The header of the split in `directory`.

    Raises:
        DataError: there is no split.
    """
    try:
        header: dict[str, Any] = read_json(directory / SPLIT_HEADER)
    except FileNotFoundError as error:
        raise DataError(f"{directory} holds no split: run `dvc repro split`") from error
    return header


def read_part(directory: Path, part: str) -> SplitPart:
    """Read "train", "query" or "gallery".

    Raises:
        DataError: there is no such part, or it has another number of rows than the header says.
    """
    header = read_header(directory)
    if part not in PARTS:
        raise DataError(f"a split has no part {part!r}, allowed are {', '.join(PARTS)}")
    table = pq.read_table(directory / f"{part}.parquet", schema=_SCHEMA)
    if table.num_rows != header["counts"][part]:
        raise DataError(
            f"{directory}/{part}.parquet has {table.num_rows} rows, split.json says {header['counts'][part]}: "
            "run `dvc repro -f split`"
        )
    labels = None if header["classes"] is None else _multi_hot(table["labels"], len(header["classes"]))
    return SplitPart(ids=table["id"].to_pylist(), labels=labels, sha256=table["sha256"].to_pylist())


def read_unreadable(directory: Path) -> list[tuple[str, str]]:
    """Id and reason of every image that the split in `directory` left out because it cannot be read."""
    lines = (directory / _UNREADABLE).read_text(encoding="utf-8").splitlines()
    return [(row["id"], row["error"]) for row in map(json.loads, lines)]


def _header(split: Split) -> dict[str, Any]:
    return {
        "data_set": split.data_set,
        "classes": None if split.classes is None else list(split.classes),
        "seed": split.seed,
        "counts": {part: len(split.parts[part].ids) for part in PARTS},
        "unreadable": len(split.unreadable),
        "duplicates_dropped": split.duplicates_dropped,
        "sha256": _digest(split.parts),
    }


def _digest(parts: Mapping[str, Rows]) -> str:
    """SHA-256 over part, id, labels and content digest of every row in order."""
    digest = hashlib.sha256()
    for part in PARTS:
        rows = parts[part]
        for row in zip(rows.ids, _labels(rows), rows.sha256, strict=True):
            digest.update(json.dumps([part, *row]).encode() + b"\n")
    return digest.hexdigest()


def _labels(rows: Rows) -> Sequence[tuple[int, ...] | None]:
    return [None] * len(rows.ids) if rows.labels is None else rows.labels


def _multi_hot(labels: pa.ChunkedArray, classes: int) -> NDArray[np.bool_]:
    lists = labels.combine_chunks()
    table = np.zeros((len(lists), classes), dtype=np.bool_)
    table[lists.value_parent_indices().to_numpy(), lists.flatten().to_numpy()] = True
    return table
