"""Retrieval figures of a backbone's float embeddings by cosine, for comparison with codes.

Relevance, denominators and the zero rule are those of codes (`nsh.core.metrics`); the order is (falling cosine, gallery
row). Floats hardly tie, so there is no tie-aware figure. Knows nothing of files.
"""

import numpy as np
from numpy.typing import NDArray

from nsh.core.hamming import query_blocks
from nsh.core.metrics.precision import average_precision, ratio
from nsh.core.metrics.relevance import check_labels, fill_relevance, label_masks
from nsh.core.ordering import smallest
from nsh.errors import ConfigError, DataError
from nsh.system.progress import Progress, no_progress

_WIDE_ROWS = 4096  # of the gallery that are float64 at once


def cosine_map(
    query_embeddings: NDArray[np.float32],
    gallery_embeddings: NDArray[np.float32],
    query_labels: NDArray[np.bool_],
    gallery_labels: NDArray[np.bool_],
    *,
    k: int,
    progress: Progress = no_progress,
) -> dict[str, float]:
    """mAP_at_k, mAP_min_at_k, P_at_k and recall_at_k of float embeddings.

    Products are summed in float64 and rounded to float32. The rounding removes the differences in the order of
    summation, which depends on the BLAS's threads and the processor.

    Args:
        query_embeddings: float32 [q, d], q >= 1. An all-zero row has cosine 0 with every row.
        gallery_embeddings: float32 [g, d], g >= 1.
        query_labels: bool [q, classes].
        gallery_labels: bool [g, classes].
        k: ranks considered; the names keep k even if the gallery is smaller.
        progress: wraps the blocks of queries.

    Raises:
        DataError: embeddings are empty, not finite, or not of one width; or labels do not fit them.
        ConfigError: k is below 1.

    Examples:
        >>> query, gallery = np.array([[1, 0]], np.float32), np.array([[0, 1], [2, 0]], np.float32)
        >>> cat, dog = [True, False], [False, True]
        >>> cosine_map(query, gallery, np.array([cat]), np.array([dog, cat]), k=1)
        {'mAP_at_1': 1.0, 'mAP_min_at_1': 1.0, 'P_at_1': 1.0, 'recall_at_1': 1.0}
    """
    if k < 1:
        raise ConfigError(f"found k = {k}: it must be at least 1")
    counts = len(query_embeddings), len(gallery_embeddings)
    check_labels(query_labels, gallery_labels, counts=counts)
    query, gallery = _normalise(query_embeddings, name="query"), _normalise(gallery_embeddings, name="gallery")
    if query.shape[1] != gallery.shape[1]:
        raise DataError(f"query embeddings are {query.shape[1]} wide and gallery embeddings {gallery.shape[1]}")
    query_masks, gallery_masks = label_masks(query_labels), label_masks(gallery_labels)
    blocks = list(query_blocks(*counts))
    totals = np.zeros(4)
    for block in progress(blocks, desc="cosine", total=len(blocks)):
        relevant = np.empty((block.stop - block.start, counts[1]), dtype=np.bool_)
        fill_relevance(query_masks[:, block], gallery_masks, out=relevant)
        totals += _block_sums(_multiply(query[block], gallery), relevant, k=k)
    names = (f"mAP_at_{k}", f"mAP_min_at_{k}", f"P_at_{k}", f"recall_at_{k}")
    return {name: float(total) / counts[0] for name, total in zip(names, totals, strict=True)}


def _multiply(query: NDArray[np.float32], gallery: NDArray[np.float32]) -> NDArray[np.float32]:
    """Inner products of all rows, float32 [b, g]."""
    products = np.empty((len(query), len(gallery)), dtype=np.float32)
    wide = query.astype(np.float64)
    for start in range(0, len(gallery), _WIDE_ROWS):
        products[:, start : start + _WIDE_ROWS] = wide @ gallery[start : start + _WIDE_ROWS].astype(np.float64).T
    return products


def _block_sums(cosines: NDArray[np.float32], relevant: NDArray[np.bool_], *, k: int) -> NDArray[np.float64]:
    """Sums over a block's queries of the four figures, from cosines and relevance [b, g]."""
    rows, _ = smallest(_falling_order(cosines), k=k)
    top = np.take_along_axis(relevant, rows, axis=1)
    everywhere = relevant.sum(axis=1)
    found = top.sum(axis=1)
    figures = (*average_precision(top, everywhere), found / top.shape[1], ratio(found, everywhere))
    return np.array([figure.sum() for figure in figures])


def _falling_order(values: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Integers that rise as float32 `values` fall (IEEE 754: positive floats order as their bit patterns do)."""
    patterns = (values + np.float32(0)).view(np.uint32)  # + 0 turns -0.0 into 0.0
    negative = patterns >> 31 == 1
    return np.where(negative, patterns, ~(patterns | np.uint32(1 << 31)))


def _normalise(embeddings: NDArray[np.float32], *, name: str) -> NDArray[np.float32]:
    if embeddings.ndim != 2 or embeddings.dtype != np.float32 or 0 in embeddings.shape:
        raise DataError(
            f"{name} embeddings must be a float32 array [n, d], found {embeddings.dtype} {list(embeddings.shape)}"
        )
    if not np.isfinite(embeddings).all():
        raise DataError(f"{name} embeddings hold NaN or infinite numbers: embed the images again")
    length = np.linalg.norm(embeddings, axis=1, keepdims=True)
    directions: NDArray[np.float32] = np.divide(embeddings, length, out=np.zeros_like(embeddings), where=length > 0)
    return directions
