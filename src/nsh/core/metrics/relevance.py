"""Relevance of gallery items to queries, with labels as bit masks: one AND compares a query with a whole row.

Knows nothing of codes or rankings.
"""

import numpy as np
from numpy.typing import NDArray

from nsh.errors import DataError

_MASKS = (np.uint8, np.uint16, np.uint32, np.uint64)


def check_labels(query: NDArray[np.bool_], gallery: NDArray[np.bool_], *, counts: tuple[int, int]) -> None:
    """Make sure both label arrays are bool [n, classes] with the `counts` (q, g) of rows they must have.

    Raises:
        DataError: they are not, or they know different numbers of classes.

    Examples:
        >>> check_labels(np.array([[True, False]]), np.array([[True]]), counts=(1, 1))
        Traceback (most recent call last):
        nsh.errors.DataError: query labels know 2 classes and gallery labels 1: use one split for both
    """
    for name, labels, count in (("query", query, counts[0]), ("gallery", gallery, counts[1])):
        if labels.dtype != np.bool_ or labels.ndim != 2 or labels.shape[0] != count or labels.shape[1] == 0:
            raise DataError(
                f"{name} labels must be a bool array [{count}, classes], found {labels.dtype} {list(labels.shape)}"
            )
    if query.shape[1] != gallery.shape[1]:
        raise DataError(
            f"query labels know {query.shape[1]} classes and gallery labels {gallery.shape[1]}: use one split for both"
        )


def label_masks(labels: NDArray[np.bool_]) -> NDArray[np.unsignedinteger]:
    """Masks [words, n] of labels bool [n, classes], in the narrowest unsigned type that holds all classes.

    Examples:
        >>> label_masks(np.array([[True, False], [False, True]]))
        array([[128,  64]], dtype=uint8)
    """
    classes = labels.shape[1]
    mask = next((mask for mask in _MASKS if 8 * mask().itemsize >= classes), np.uint64)
    width = 8 * mask().itemsize
    padded = np.zeros((len(labels), -(-classes // width) * width), dtype=np.bool_)
    padded[:, :classes] = labels
    return np.ascontiguousarray(np.packbits(padded, axis=1).view(mask).T)


def fill_relevance(
    query: NDArray[np.unsignedinteger], gallery: NDArray[np.unsignedinteger], *, out: NDArray[np.bool_]
) -> None:
    """Write into `out` bool [q, g] whether the masks [words, q] and [words, g] share a label.

    Examples:
        >>> cat, dog = [True, False], [False, True]
        >>> query, gallery = label_masks(np.array([cat])), label_masks(np.array([cat, dog]))
        >>> relevant = np.empty((1, 2), np.bool_)
        >>> fill_relevance(query, gallery, out=relevant)
        >>> relevant
        array([[ True, False]])
    """
    for row in range(query.shape[1]):
        np.not_equal(query[0, row] & gallery[0], 0, out=out[row])
        for word in range(1, len(query)):
            out[row] |= (query[word, row] & gallery[word]) != 0
