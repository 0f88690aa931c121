"""Curves as columns of numbers, and as CSV. Knows nothing of how they are measured."""

import numpy as np
from numpy.typing import NDArray

Table = dict[str, NDArray[np.float64] | NDArray[np.int64]]

CURVES: dict[str, tuple[str, ...]] = {
    "precision_at_k": ("k", "precision", "recall"),
    "pr_ranking": ("rank", "recall", "precision"),
    "pr_lookup": ("radius", "recall", "precision", "empty_share"),
}
"""The columns of every curve; without labels the tables have no rows."""

PROTOCOL = {
    "relevant": "shared label",
    "order": "distance, gallery row",
    "ap_denominator": "hits in top k",
    "zero_hits": "count 0",
    "reranked": "the first max(k, 1000), by the query's logits against stored bits",
    "estimate": "agreement with the nearest 5 % of the gallery, times the root of tightness",
}
"""The rules of the figures in a few words, written into the metrics file; `nsh.core.metrics` has them in full."""


def to_csv(table: Table) -> str:
    """CSV text of columns of equal length: a header line, then integers, and floats with six significant digits.

    Examples:
        >>> print(to_csv({"k": np.array([1, 2]), "precision": np.array([1.0, 0.5])}), end="")
        k,precision
        1,1
        2,0.5
    """
    lines = [",".join(table)]
    lines += [",".join(map(_format, row)) for row in zip(*table.values(), strict=True)]
    return "\n".join(lines) + "\n"


def _format(value: np.float64 | np.int64) -> str:
    return str(value) if isinstance(value, np.integer) else f"{value:.6g}"
