"""Curves as columns of numbers, and as CSV. Knows nothing of how they are measured."""

import numpy as np
from numpy.typing import NDArray

Table = dict[str, NDArray[np.float64] | NDArray[np.int64]]

CURVES: dict[str, tuple[str, ...]] = {
    "precision_at_k": ("k", "precision", "recall"),
    "pr_ranking": ("rank", "recall", "precision"),
    "pr_lookup": ("radius", "recall", "precision", "empty_share"),
}
"""Every curve's columns: an evaluation without labels has the same tables, without rows."""

PROTOCOL = {
    "relevant": "shares at least one label with the query",
    "order": "(distance, gallery row); tie-aware figures: expected over random orders of equal distances",
    "average_precision": "sum of precisions at the hits in the top k, over the hits in the top k; min: over min(R, k)",
    "zero_hits": "a query without a hit, a relevant item or a neighbour in its ball counts 0",
}
"""The rules behind the figures, in words, to be written beside them."""


def to_csv(table: Table) -> str:
    """CSV text of columns of one length: a header line, then six significant digits a number."""
    lines = [",".join(table)]
    lines += [",".join(f"{value:.6g}" for value in row) for row in zip(*table.values(), strict=True)]
    return "\n".join(lines) + "\n"
