"""The ranking order: by value, equal values by row. Knows nothing of the values' meaning."""

import numpy as np
from numpy.typing import NDArray

_ROW_BITS = np.uint64(32)
_ROW_MASK = np.uint64(0xFFFFFFFF)


def smallest(values: NDArray[np.uint32], *, k: int) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Columns and values of the k smallest entries of each row of `values` (uint32 [n, m], m < 2**32).

    Returns:
        columns int64 and values uint32, both [n, min(k, m)], ordered by (value, column). Value and column are joined
        into one unique integer, so the result does not depend on how a sorting algorithm orders ties.

    Examples:
        >>> smallest(np.array([[5, 1, 1, 0]], np.uint32), k=3)
        (array([[3, 1, 2]]), array([[0, 1, 1]], dtype=uint32))
    """
    columns = values.shape[1]
    keys = values.astype(np.uint64) << _ROW_BITS
    keys |= np.arange(columns, dtype=np.uint64)
    if k < columns:
        keys = np.partition(keys, k - 1, axis=1)[:, :k]
    keys = np.sort(keys, axis=1)
    return (keys & _ROW_MASK).astype(np.int64), (keys >> _ROW_BITS).astype(np.uint32)
