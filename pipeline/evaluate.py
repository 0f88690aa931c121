"""Stage evaluate: codes and the split's labels -> metrics/<method>-<bits>.json and metrics/curves/<method>-<bits>/.

metrics/curves/ gets all that compare needs of a pair: average_precision.csv, one row a query in the order of the codes,
from which differences are told from chance; nearest.csv, what some queries find, by their rows in data/split;
history.json, as train left it. It is small text and lies in git as the curves do: a fresh clone has nothing to do, and
pairs that left the matrix make no difference.
An image that could not be encoded is neither searched for nor found, and is counted in the protocol.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.config import read_params
from nsh.core.manifest import Codes, read_codes
from nsh.core.metrics import PROTOCOL, Evaluation, Table, evaluate, find_examples, to_csv
from nsh.data.split import SplitPart, read_header, read_part
from nsh.errors import CodesError
from nsh.system.command import run_stage
from nsh.system.files import write_json, write_text
from nsh.system.folders import atomic_folder
from nsh.terminal import show_progress
from nsh.tracking import record

SPLIT, MODELS, CODES, METRICS = Path("data/split"), Path("models"), Path("codes"), Path("metrics")


def main() -> None:
    """Search the gallery's codes with the queries' and write what was measured."""
    arguments = _parse()
    params, key = read_params(), f"{arguments.method}-{arguments.bits}"
    query, gallery = read_codes(CODES / key / "query"), read_codes(CODES / key / "gallery")
    if query.header["encoder_sha256"] != gallery.header["encoder_sha256"]:
        raise CodesError(f"query and gallery codes of {key} are of two encoders: run `dvc repro encode@{key}`")
    query_rows, query_labels = _place(query, read_part(SPLIT, "query"))
    gallery_rows, gallery_labels = _place(gallery, read_part(SPLIT, "gallery"))
    evaluation = evaluate(
        query.codes,
        gallery.codes,
        query_labels,
        gallery_labels,
        bits=arguments.bits,
        k=params.evaluate.k,
        threads=params.compute.threads,
        progress=show_progress,
    )
    nearest = find_examples(query.codes, gallery.codes, query_labels, seed=read_header(SPLIT)["seed"])
    nearest |= {"query": query_rows[nearest["query"]], "gallery": gallery_rows[nearest["gallery"]]}
    protocol = {"method": arguments.method, "bits": arguments.bits, "k": params.evaluate.k, **PROTOCOL}
    _write(evaluation, nearest, protocol | _count(query, gallery), key=key)
    record(Path(), params, method=arguments.method, bits=arguments.bits)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure codes/<method>-<bits> by exact search in Hamming distance.")
    parser.add_argument("--method", required=True, help="method that made the codes, e.g. nsh")
    parser.add_argument("--bits", required=True, type=int, help="length of a code, e.g. 32")
    return parser.parse_args()


def _place(codes: Codes, part: SplitPart) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Rows [n] in the split of the images that have a code, in the codes' order, and their labels [n, classes]."""
    places = {image_id: row for row, image_id in enumerate(part.ids)}
    if places.keys() != set(codes.ids) | {entry.id for entry in codes.errors}:
        raise CodesError("the codes are not of the images of data/split: encode again with `dvc repro`")
    rows = np.array([places[image_id] for image_id in codes.ids], dtype=np.int64)
    return rows, None if part.labels is None else part.labels[rows]


def _count(query: Codes, gallery: Codes) -> dict[str, Any]:
    split = read_header(SPLIT)
    return {
        "queries": len(query.codes),
        "gallery": len(gallery.codes),
        "queries_without_code": len(query.errors),
        "gallery_without_code": len(gallery.errors),
        "data_set": split["data_set"],
        "split_sha256": split["sha256"],
        "encoder_sha256": gallery.header["encoder_sha256"],
    }


def _write(evaluation: Evaluation, nearest: Table, protocol: dict[str, Any], *, key: str) -> None:
    average_precision: Table = {"average_precision": evaluation.average_precision}
    tables = evaluation.curves | {"average_precision": average_precision, "nearest": nearest}
    with atomic_folder(METRICS / "curves" / key) as folder:
        for name, table in tables.items():
            write_text(folder / f"{name}.csv", to_csv(table))
        shutil.copyfile(MODELS / key / "history.json", folder / "history.json")
    # Twelve decimals are far below what a query more or less changes, and above a processor's last bits.
    metrics = {name: round(value, 12) for name, value in evaluation.metrics.items()}
    write_json(METRICS / f"{key}.json", metrics | {"protocol": protocol})
    for name, value in metrics.items():
        print(f"{key}  {name:<24}{value:10.4f}")


if __name__ == "__main__":
    run_stage(main)
