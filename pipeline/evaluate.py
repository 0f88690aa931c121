"""Stage evaluate: codes and the split's labels -> metrics/<method>-<bits>.json and metrics/curves/<method>-<bits>/.

metrics/curves/ also gets average_precision.csv, one row a query in the order of the codes, from which compare tells
differences from chance. It is small text and lies in git as the curves do: so a fresh clone has nothing to do.
An image that could not be encoded is neither searched for nor found, and is counted in the protocol.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.config import read_params
from nsh.core.command import run_stage
from nsh.core.errors import CodesError
from nsh.core.files import write_json, write_text
from nsh.core.folders import atomic_folder
from nsh.core.manifest import Codes, read_codes
from nsh.core.metrics import PROTOCOL, Evaluation, evaluate, to_csv
from nsh.data.split import SplitPart, read_header, read_part
from nsh.terminal import show_progress
from nsh.tracking import record

SPLIT, CODES, METRICS = Path("data/split"), Path("codes"), Path("metrics")


def main() -> None:
    """Search the gallery's codes with the queries' and write what was measured."""
    arguments = _parse()
    params, key = read_params(), f"{arguments.method}-{arguments.bits}"
    query, gallery = read_codes(CODES / key / "query"), read_codes(CODES / key / "gallery")
    if query.header["encoder_sha256"] != gallery.header["encoder_sha256"]:
        raise CodesError(f"query and gallery codes of {key} are of two encoders: run `dvc repro encode@{key}`")
    evaluation = evaluate(
        query.codes,
        gallery.codes,
        _labels(query, read_part(SPLIT, "query")),
        _labels(gallery, read_part(SPLIT, "gallery")),
        bits=arguments.bits,
        k=params.evaluate.k,
        threads=params.compute.threads,
        progress=show_progress,
    )
    protocol = {"method": arguments.method, "bits": arguments.bits, "k": params.evaluate.k, **PROTOCOL}
    _write(evaluation, protocol | _count(query, gallery), key=key)
    record(Path(), params, method=arguments.method, bits=arguments.bits)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure codes/<method>-<bits> by exact search in Hamming distance.")
    parser.add_argument("--method", required=True, help="method that made the codes, e.g. nsh")
    parser.add_argument("--bits", required=True, type=int, help="length of a code, e.g. 32")
    return parser.parse_args()


def _labels(codes: Codes, part: SplitPart) -> NDArray[np.bool_] | None:
    """Labels [n, classes] of the images that have a code, in the codes' order."""
    rows = {image_id: row for row, image_id in enumerate(part.ids)}
    if rows.keys() != set(codes.ids) | {entry.id for entry in codes.errors}:
        raise CodesError("the codes are not of the images of data/split: encode again with `dvc repro`")
    return None if part.labels is None else part.labels[[rows[image_id] for image_id in codes.ids]]


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


def _write(evaluation: Evaluation, protocol: dict[str, Any], *, key: str) -> None:
    with atomic_folder(METRICS / "curves" / key) as folder:
        for name, table in evaluation.curves.items():
            write_text(folder / f"{name}.csv", to_csv(table))
        write_text(folder / "average_precision.csv", to_csv({"average_precision": evaluation.average_precision}))
    # Twelve decimals are far below what a query more or less changes, and above a processor's last bits.
    metrics = {name: round(value, 12) for name, value in evaluation.metrics.items()}
    write_json(METRICS / f"{key}.json", metrics | {"protocol": protocol})
    for name, value in metrics.items():
        print(f"{key}  {name:<24}{value:10.4f}")


if __name__ == "__main__":
    run_stage(main)
