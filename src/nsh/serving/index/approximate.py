"""The approximate backend: inverted lists over the codes (FAISS's IndexBinaryIVF), tuned to a measured recall.

Rows have their database keys, so that removed and changed rows are deleted one by one and new rows join the list of
their nearest centre. The centres are computed again when the index has doubled. Recall is counted by distance: a found
neighbour is right if it is at most as far as the true 10th, because equal distances are equally right. Knows no id,
version or path.
"""

import math
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from nsh.serving.index.exact import Found, in_order, nearest, use_threads

RECALL_AT = 10
WANTED_RECALL = 0.95
"""The number of lists that a query searches is doubled until this recall is reached."""

_SAMPLE = 256  # stored codes that serve as queries for the measurement
_TRAINING_ROWS_PER_LIST = 39  # FAISS's own least number


class Tuning(NamedTuple):
    """The lists, and the recall measured when the centres were computed."""

    lists: int
    probes: int
    recall: float  # at 10, 0..1, each query's own row left out
    rows: int


def build(
    codes: NDArray[np.uint8], keys: NDArray[np.int64], *, bits: int, threads: int
) -> tuple[faiss.IndexBinaryIVF, Tuning]:
    """Compute the centres, put every row into a list, and choose how many lists a query searches."""
    count = round(math.sqrt(len(codes)))
    padded_bits = 8 * codes.shape[1]
    centres = faiss.IndexBinaryFlat(padded_bits)
    lists = faiss.IndexBinaryIVF(centres, padded_bits, count)
    lists.cp.min_points_per_centroid = 1  # no warning for a small index
    chosen = np.random.default_rng(0).permutation(len(codes))[: _TRAINING_ROWS_PER_LIST * count]
    with use_threads(threads):
        lists.train(np.ascontiguousarray(codes[np.sort(chosen)]))
        lists.add_with_ids(np.ascontiguousarray(codes), np.ascontiguousarray(keys))
    return lists, _tune(lists, codes, keys=keys, threads=threads)


def update(
    lists: faiss.IndexBinaryIVF,
    codes: NDArray[np.uint8],
    *,
    keys: NDArray[np.int64],
    gone: NDArray[np.int64],
    threads: int,
) -> None:
    """Remove the rows with the keys `gone`, and add `codes` under `keys`."""
    with use_threads(threads):
        if len(gone):
            lists.remove_ids(gone)
        if len(keys):
            lists.add_with_ids(np.ascontiguousarray(codes), np.ascontiguousarray(keys))


def search(
    lists: faiss.IndexBinaryIVF, query: NDArray[np.uint8], *, k: int, probes: int, threads: int
) -> list[Found | None]:
    """Keys and distances of about the k nearest rows of each query; None if the searched lists hold fewer."""
    lists.nprobe = probes
    with use_threads(threads):
        distances, keys = lists.search(query, k)
    return [
        None if row[-1] < 0 else in_order(row, near.astype(np.int64)) for row, near in zip(keys, distances, strict=True)
    ]


def to_bytes(lists: faiss.IndexBinaryIVF) -> NDArray[np.uint8]:
    """The file's content."""
    content: NDArray[np.uint8] = faiss.serialize_index_binary(lists)
    return content


def from_bytes(content: NDArray[np.uint8]) -> Any:
    """Undo `to_bytes`."""
    return faiss.deserialize_index_binary(content)


def _tune(lists: faiss.IndexBinaryIVF, codes: NDArray[np.uint8], *, keys: NDArray[np.int64], threads: int) -> Tuning:
    chosen = np.sort(np.random.default_rng(1).permutation(len(codes))[:_SAMPLE])
    query, k = np.ascontiguousarray(codes[chosen]), min(RECALL_AT + 1, len(codes))  # a query finds its own row too
    exact = [distances for _, distances in nearest(query, codes, k=k, threads=threads)]
    probes = 1
    while True:
        found = search(lists, query, k=k, probes=probes, threads=threads)
        recall = float(np.mean([_recall(one, truth) for one, truth in zip(found, exact, strict=True)]))
        if recall >= WANTED_RECALL or probes == lists.nlist:
            return Tuning(lists.nlist, probes, recall, len(codes))
        probes = min(2 * probes, lists.nlist)


def _recall(found: Found | None, exact: NDArray[np.int64]) -> float:
    if len(exact) < 2:
        return 1.0
    right = 0 if found is None else int(np.count_nonzero(found[1] <= exact[-1]))
    return max(right - 1, 0) / (len(exact) - 1)
