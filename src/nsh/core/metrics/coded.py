"""The codes of a part of the split, with rows and labels; nearest images; the protocol's counts. Knows no files.

An image that could not be encoded is no query and no gallery item; the protocol has the count of such images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.manifest import Codes
from nsh.core.metrics.examples import find_examples
from nsh.core.metrics.tables import Table
from nsh.errors import CodesError


@dataclass(frozen=True)
class CodedPart:
    """The images of a part of the split that have a code, in the codes' order.

    Attributes:
        codes: as they were read.
        rows: int64 [n], their rows in the part.
        labels: bool [n, classes], None without labels.
    """

    codes: Codes
    rows: NDArray[np.int64]
    labels: NDArray[np.bool_] | None


def place_codes(codes: Codes, ids: Sequence[str], labels: NDArray[np.bool_] | None) -> CodedPart:
    """Find the rows of `codes` in a part of the split.

    Args:
        codes: of all images of the part.
        ids: of the m images of the part.
        labels: bool [m, classes], None without labels.

    Raises:
        CodesError: the codes are of other images.

    Examples:
        >>> codes = Codes(["b.jpg", "a.jpg"], np.array([[1], [2]], np.uint8), {}, [])
        >>> place_codes(codes, ["a.jpg", "b.jpg"], None).rows
        array([1, 0])
    """
    places = {image_id: row for row, image_id in enumerate(ids)}
    if places.keys() != set(codes.ids) | {entry.id for entry in codes.errors}:
        raise CodesError("the codes are not of the images of data/split: encode again with `dvc repro`")
    rows = np.array([places[image_id] for image_id in codes.ids], dtype=np.int64)
    return CodedPart(codes, rows, None if labels is None else labels[rows])


def find_nearest(query: CodedPart, gallery: CodedPart, *, seed: int) -> Table:
    """The table of `nsh.core.metrics.examples.find_examples`, by rows in the parts.

    Examples:
        >>> query = place_codes(Codes(["q"], np.array([[0b00]], np.uint8), {}, []), ["q"], None)
        >>> codes = Codes(["b.jpg", "a.jpg"], np.array([[0b11], [0b01]], np.uint8), {}, [])
        >>> find_nearest(query, place_codes(codes, ["a.jpg", "b.jpg"], None), seed=0)["gallery"]
        array([0, 1])
    """
    found = find_examples(query.codes.codes, gallery.codes.codes, query.labels, seed=seed)
    return found | {"query": query.rows[found["query"]], "gallery": gallery.rows[found["gallery"]]}


def count_parts(query: CodedPart, gallery: CodedPart) -> dict[str, Any]:
    """The numbers of images with and without a code, for the protocol.

    Examples:
        >>> part = place_codes(Codes(["a.jpg"], np.array([[1]], np.uint8), {}, []), ["a.jpg"], None)
        >>> count_parts(part, part)["gallery"]
        1
    """
    return {
        "queries": len(query.codes.codes),
        "gallery": len(gallery.codes.codes),
        "queries_without_code": len(query.codes.errors),
        "gallery_without_code": len(gallery.codes.errors),
    }
