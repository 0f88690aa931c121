"""mAP of nested codes: of the first bits of each code alone, at each length that the encoder's contract lists.

Knows nothing of files.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import first_bits
from nsh.core.metrics.evaluation import evaluate


def nested_name(bits: int, *, k: int) -> str:
    """The name of mAP@k of the first `bits` bits.

    Examples:
        >>> nested_name(32, k=1000)
        'mAP_at_1000_first_32_bits'
    """
    return f"mAP_at_{k}_first_{bits}_bits"


def evaluate_nested(
    query_codes: NDArray[np.uint8],
    gallery_codes: NDArray[np.uint8],
    query_labels: NDArray[np.bool_] | None,
    gallery_labels: NDArray[np.bool_] | None,
    *,
    lengths: list[int],
    k: int,
    **work: Any,
) -> dict[str, float]:
    """mAP@k of the first bits of codes at each of `lengths`, by name; nothing without labels.

    Arguments, of which `work` are threads and progress, and errors are those of `nsh.core.metrics.evaluate`; codes have
    at least the bits of every length.

    Examples:
        >>> query, gallery = np.array([[0b0000_0000]], np.uint8), np.array([[0b0100_0000], [0b0011_1111]], np.uint8)
        >>> labels = np.array([[True, False]]), np.array([[False, True], [True, False]])
        >>> evaluate_nested(query, gallery, *labels, lengths=[2, 8], k=2)  # the second item is nearer by 2 bits alone
        {'mAP_at_2_first_2_bits': 1.0, 'mAP_at_2_first_8_bits': 0.5}
    """
    if query_labels is None:
        return {}
    found = {}
    for bits in lengths:
        codes = first_bits(query_codes, bits=bits), first_bits(gallery_codes, bits=bits)
        measured = evaluate(*codes, query_labels, gallery_labels, bits=bits, k=k, **work)
        found[nested_name(bits, k=k)] = measured.metrics[f"mAP_at_{k}"]
    return found
