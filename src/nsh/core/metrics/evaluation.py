"""Computes every figure and curve of `nsh.core.metrics` in one pass over the queries.

Queries are processed in blocks, one thread for each. A block leaves only sums and one number a query, so memory is
bounded by threads x block. Blocks are cut and summed in one order, so the result does not depend on `threads`, to the
last bit. Knows nothing of files.
"""

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import check_codes
from nsh.core.hamming import fill_distances, query_blocks, to_words
from nsh.core.metrics.balance import bit_figures
from nsh.core.metrics.figures import CURVE_DEPTH, RADIUS, Figures, reranked_figures, retrieval_figures
from nsh.core.metrics.ranking import rank_block, sample_ranks
from nsh.core.metrics.relevance import check_labels, fill_relevance, label_masks
from nsh.core.metrics.reranked import check_logits, rerank_block
from nsh.core.metrics.tables import CURVES, Table
from nsh.core.reranking import shortlist_length
from nsh.errors import CodesError, ConfigError
from nsh.system.progress import Progress, no_progress
from nsh.system.threads import map_in_threads


@dataclass(frozen=True)
class Evaluation:
    """Figures, all finite, by names that DVC and MLflow both accept, and curves by name (`CURVES`)."""

    metrics: dict[str, float]
    curves: dict[str, Table]
    average_precision: NDArray[np.float64]  # [q], whose mean is mAP_at_k; [0] without labels


def evaluate(
    query_codes: NDArray[np.uint8],
    gallery_codes: NDArray[np.uint8],
    query_labels: NDArray[np.bool_] | None,
    gallery_labels: NDArray[np.bool_] | None,
    *,
    bits: int,
    k: int,
    query_logits: NDArray[np.floating[Any]] | None = None,
    threads: int = 1,
    progress: Progress = no_progress,
) -> Evaluation:
    """Measure codes by searching `gallery_codes` with `query_codes`, exactly.

    Args:
        query_codes: uint8 [q, ceil(bits / 8)], packed as `nsh.core.codes.pack` does, q >= 1.
        gallery_codes: uint8 [g, ceil(bits / 8)], g >= 1. Its order decides between equal distances: shuffle it once.
        query_labels: bool [q, classes], True if the image has the label; None: only the figures that need no labels.
        gallery_labels: bool [g, classes], None if and only if `query_labels` is.
        bits: length of a code.
        k: ranks considered; the names keep k even if the gallery is smaller.
        query_logits: float [q, bits], of which `query_codes` are the signs, for mAP_at_k_reranked; None: without it.
        threads: blocks of queries processed at once; results do not depend on it.
        progress: wraps the blocks.

    Raises:
        CodesError: codes are no packed codes of `bits` bits, or there are none, or the logits are not theirs.
        DataError: labels do not fit the codes or each other.
        ConfigError: k or threads is below 1, or only one of query and gallery has labels.

    Examples:
        >>> query, gallery = np.array([[0b000]], np.uint8), np.array([[0b001], [0b011], [0b111]], np.uint8)
        >>> cat, dog = [True, False], [False, True]
        >>> found = evaluate(query, gallery, np.array([cat]), np.array([cat, dog, cat]), bits=8, k=2)
        >>> [found.metrics[name] for name in ("mAP_at_2", "P_at_2", "recall_at_2")]
        [1.0, 0.5, 0.5]
    """
    _check(query_codes, gallery_codes, bits=bits, k=k, threads=threads)
    if query_logits is not None:
        check_logits(query_logits, query_codes)
    metrics = bit_figures(gallery_codes, bits=bits)
    average = partial(_average, queries=len(query_codes), gallery=len(gallery_codes), threads=threads)
    codes = _Codes(to_words(query_codes), to_words(gallery_codes), bits)
    if query_labels is None and gallery_labels is None:
        means, nothing = average(codes.empty_balls, progress=progress)
        return Evaluation(_name(means, k=k) | metrics, _empty_curves(), nothing)
    if query_labels is None or gallery_labels is None:
        raise ConfigError("labels are given for only one of query and gallery: give both, or neither")
    check_labels(query_labels, gallery_labels, counts=(len(query_codes), len(gallery_codes)))
    masks, shortlists = (label_masks(query_labels), label_masks(gallery_labels)), (query_logits, gallery_codes)
    search = _Search(codes, *masks, min(k, len(gallery_codes)), *shortlists)
    means, precisions = average(search.figures, progress=progress)
    return Evaluation(_name(means, k=k) | metrics, _draw(means, ranks=search.ranks), precisions)


@dataclass(frozen=True)
class _Codes:
    """Query and gallery codes as words, for comparison block by block."""

    query: NDArray[np.uint64]  # [words, q]
    gallery: NDArray[np.uint64]  # [words, g]
    bits: int

    def distances(self, block: slice) -> NDArray[np.uint8] | NDArray[np.uint16]:
        """Distances [b, g] of a block of queries, in the narrowest type, which sorts fastest."""
        query = self.query[:, block]
        shape = (query.shape[1], self.gallery.shape[1])
        table = np.empty(shape, np.uint8) if self.bits <= np.iinfo(np.uint8).max else np.empty(shape, np.uint16)
        fill_distances(query, self.gallery, out=table)
        return table

    def empty_balls(self, block: slice) -> Figures:
        """The only retrieval figure that needs no label."""
        return {"empty_ball_share": (self.distances(block).min(axis=1) > RADIUS).astype(np.float64)}


@dataclass(frozen=True)
class _Search:
    """Codes with the masks of their labels."""

    codes: _Codes
    query_masks: NDArray[np.unsignedinteger]  # [words, q]
    gallery_masks: NDArray[np.unsignedinteger]  # [words, g]
    k: int  # at most g
    query_logits: NDArray[np.floating[Any]] | None  # [q, bits]
    gallery_codes: NDArray[np.uint8]  # [g, bytes]

    @property
    def ranks(self) -> NDArray[np.int64]:
        return sample_ranks(self.gallery_masks.shape[1])

    def figures(self, block: slice) -> Figures:
        distances = self.codes.distances(block)
        relevant = np.empty(distances.shape, dtype=np.bool_)
        fill_relevance(self.query_masks[:, block], self.gallery_masks, out=relevant)
        length = shortlist_length(self.k)
        depth = min(max(length, CURVE_DEPTH), distances.shape[1])
        ranked = rank_block(distances, relevant, bits=self.codes.bits, depth=depth, ranks=self.ranks)
        figures = retrieval_figures(ranked, k=self.k, ranks=self.ranks)
        if self.query_logits is None:
            return figures
        reranked = rerank_block(ranked, self.query_logits[block], self.gallery_codes, length=length)
        return figures | reranked_figures(reranked, relevant.sum(axis=1), k=self.k)


def _average(
    figures: Callable[[slice], Figures], *, queries: int, gallery: int, threads: int, progress: Progress
) -> tuple[Figures, NDArray[np.float64]]:
    """The means over all queries of the `figures` of each block, and every query's average precision."""
    blocks = list(query_blocks(queries, gallery))
    totals: Figures = {}
    precisions: list[NDArray[np.float64]] = []
    sums = map_in_threads(lambda block: _sum_over_queries(figures(block)), blocks, threads=threads)
    with closing(sums):
        for block_sums, block_precisions in progress(sums, desc="evaluate", total=len(blocks)):
            totals = {name: totals.get(name, 0.0) + values for name, values in block_sums.items()}
            precisions.append(block_precisions)
    return {name: total / queries for name, total in totals.items()}, np.concatenate(precisions)


def _sum_over_queries(figures: Figures) -> tuple[Figures, NDArray[np.float64]]:
    return {name: values.sum(axis=0) for name, values in figures.items()}, figures.get("mAP_at_k", np.empty(0))


def _name(means: Figures, *, k: int) -> dict[str, float]:
    """The scalar figures, each name with the number in the place of k."""
    return {
        re.sub(r"_at_k(?=_|$)", f"_at_{k}", name): float(mean) for name, mean in means.items() if np.ndim(mean) == 0
    }


def _draw(means: Figures, *, ranks: NDArray[np.int64]) -> dict[str, Table]:
    """The curves' columns, in the order of `CURVES`."""
    depths, radii = np.arange(1, len(means["depth_precision"]) + 1), np.arange(len(means["radius_precision"]))
    columns = (
        (depths, means["depth_precision"], means["depth_recall"]),
        (ranks, means["rank_recall"], means["rank_precision"]),
        (radii, means["radius_recall"], means["radius_precision"], means["radius_empty"]),
    )
    return {
        curve: dict(zip(names, values, strict=True))
        for (curve, names), values in zip(CURVES.items(), columns, strict=True)
    }


def _empty_curves() -> dict[str, Table]:
    return {curve: {name: np.empty(0) for name in names} for curve, names in CURVES.items()}


def _check(
    query_codes: NDArray[np.uint8], gallery_codes: NDArray[np.uint8], *, bits: int, k: int, threads: int
) -> None:
    for name, codes in (("query", query_codes), ("gallery", gallery_codes)):
        check_codes(codes, bits=bits)
        if len(codes) == 0:
            raise CodesError(f"there are no {name} codes, and nothing to measure: encode some images first")
    if k < 1 or threads < 1:
        raise ConfigError(f"found k = {k} and threads = {threads}: both must be at least 1")
