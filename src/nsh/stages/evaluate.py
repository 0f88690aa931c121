"""Evaluate: codes of a pair, logits of its queries, embeddings, and the split's labels -> its figures and curves.

`nsh.project.results` describes what is written.
"""

from dataclasses import replace
from typing import Any

from nsh.core.manifest import read_codes
from nsh.core.metrics import PROTOCOL, evaluate, evaluate_nested
from nsh.core.metrics.coded import CodedPart, count_parts, find_nearest, place_codes
from nsh.core.metrics.estimate import choose, estimate_map, find_related
from nsh.core.query_logits import read_logits
from nsh.data.split import read_header, read_part
from nsh.errors import CodesError
from nsh.project.embeddings import Embeddings
from nsh.project.paths import PairFiles, Project
from nsh.project.projected import project_parts
from nsh.project.results import write_measured
from nsh.system.progress import Progress, no_progress


def evaluate_codes(
    project: Project, files: PairFiles, *, k: int, threads: int, progress: Progress = no_progress
) -> None:
    """Search the gallery's codes with the queries', exactly, and write what is measured.

    Args:
        project: its split and embeddings are read.
        files: of the pair; its codes and its history are read, figures and curves are written.
        k: ranks looked at.
        threads: blocks of queries worked on at once; no figure depends on it.
        progress: shows the blocks.

    Raises:
        CodesError: codes or logits are not there, are of two encoders, or not of the split's images.
        DataError: there are no embeddings.
    """
    pair, split = files.pair, read_header(project.split)
    codes = {part: read_codes(files.codes / part) for part in ("query", "gallery")}
    encoders = [codes[part].header["encoder_identity"] for part in codes]
    if encoders[0] != encoders[1]:
        raise CodesError(
            f"query and gallery codes of {pair.key} are of two encoders: run `dvc repro encode@{pair.key}`"
        )
    rows = {part: read_part(project.split, part) for part in codes}
    query, gallery = (place_codes(codes[part], rows[part].ids, rows[part].labels) for part in codes)
    arrays = query.codes.codes, gallery.codes.codes, query.labels, gallery.labels
    logits = read_logits(files.codes / "query", codes["query"])
    work: dict[str, Any] = {"k": k, "threads": threads, "progress": progress}
    evaluation = evaluate(*arrays, bits=pair.bits, query_logits=logits, **work)
    nested = evaluate_nested(*arrays, lengths=codes["gallery"].header["nested"], **work)
    estimate = {f"estimated_mAP_at_{k}": _estimate(project, query, gallery, k=k)}
    evaluation = replace(evaluation, metrics=evaluation.metrics | nested | estimate)
    nearest = find_nearest(query, gallery, seed=split["seed"])
    protocol = {"method": pair.method, "bits": pair.bits, "k": k, **PROTOCOL, **count_parts(query, gallery)}
    protocol |= {"data_set": split["data_set"], "split_sha256": split["sha256"], "encoder_identity": encoders[1]}
    write_measured(files, evaluation, nearest, protocol=protocol)


def _estimate(project: Project, query: CodedPart, gallery: CodedPart, *, k: int) -> float:
    """The mAP that needs no labels, rounded above the last bits that a processor's kernels may move."""
    projected, rows = project_parts(Embeddings(project.embed)), choose(len(query.rows))
    related = find_related(projected["query"][query.rows[rows]], projected["gallery"][gallery.rows])
    return round(estimate_map((query.codes.codes[rows], gallery.codes.codes), related, k=k).value, 6)
