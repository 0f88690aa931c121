"""Checks of labels: classes of very different sizes, a single class, and queries without a right answer.

Labels are bool [n, classes], as `nsh.data.split` reads them. Images that share a class are relevant to each other.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.audit.finding import Finding, Limit
from nsh.core.hamming import query_blocks
from nsh.core.metrics.relevance import fill_relevance, label_masks

Labels = NDArray[np.bool_]


def check_labels(
    query: Labels | None, gallery: Labels | None, *, classes: Sequence[str], limits: Mapping[str, Limit]
) -> dict[str, Finding]:
    """The checks `relevant_share`, `unmatched` and `imbalance`; without labels none is made.

    Args:
        query: of the q queries, q >= 1.
        gallery: of the g gallery images, g >= 1.
        classes: their names.
        limits: of each check, by its name.
    """
    if query is None or gallery is None:
        unlabelled: dict[str, Any] = {"value": None, "found": "nothing is labelled", "remedy": ""}
        said = dict.fromkeys(("relevant_share", "unmatched", "imbalance"), unlabelled)
    else:
        relevant = count_relevant(query, gallery)
        said = {
            "relevant_share": _describe_share(relevant / len(gallery)),
            "unmatched": _describe_unmatched(relevant),
            "imbalance": _describe_imbalance(query.sum(axis=0) + gallery.sum(axis=0), classes),
        }
    return {name: Finding(key=f"audit.{name}", limit=limits[name], **one) for name, one in said.items()}


def count_relevant(query: Labels, gallery: Labels) -> NDArray[np.int64]:
    """How many gallery images are relevant to each query: int64 [q] of labels bool [q, classes] and [g, classes]."""
    query_masks, gallery_masks = label_masks(query), label_masks(gallery)
    counts = np.zeros(len(query), np.int64)
    for block in query_blocks(len(query), len(gallery)):
        table = np.empty((block.stop - block.start, len(gallery)), np.bool_)
        fill_relevance(query_masks[:, block], gallery_masks, out=table)
        counts[block] = np.count_nonzero(table, axis=1)
    return counts


def _describe_share(shares: NDArray[np.float64]) -> dict[str, Any]:
    value = float(shares.mean())
    found = (
        f"a share of {value:.3g} of the gallery is relevant to a query on average, which is the mAP of any random order"
    )
    return {"value": value, "found": found, "remedy": "label finer classes, or draw from more of them"}


def _describe_unmatched(relevant: NDArray[np.int64]) -> dict[str, Any]:
    count = int((relevant == 0).sum())
    value = count / len(relevant)
    found = f"{count} of {len(relevant)} queries have no relevant image in the gallery, a share of {value:.3g}"
    return {"value": value, "found": found, "remedy": "add images of their classes, or enlarge split.gallery"}


def _describe_imbalance(counts: NDArray[np.int64], classes: Sequence[str]) -> dict[str, Any]:
    """Of the classes that have an image in the split; the others are counted."""
    there = np.flatnonzero(counts)
    if not len(there):
        return {"value": None, "found": "no image has a class", "remedy": ""}
    most, least = there[counts[there].argmax()], there[counts[there].argmin()]
    value = float(counts[most] / counts[least])
    found = (
        f"class {classes[most]!r} has {value:.3g} times the images of {classes[least]!r}, {counts[most]} and "
        f"{counts[least]}"
    )
    absent = len(counts) - len(there)
    found += f", and {absent} of {len(counts)} classes have none" if absent else ""
    return {"value": value, "found": found, "remedy": "set split.draw: per_class, or add images of the small classes"}
