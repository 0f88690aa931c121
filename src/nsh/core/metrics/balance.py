"""How well codes use their bits, without labels. Knows nothing of queries or distances."""

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import unpack

_ROWS_PER_BLOCK = 1 << 16


def bit_figures(codes: NDArray[np.uint8], *, bits: int) -> dict[str, float]:
    """bit_balance, constant_bits_share, unique_codes and code_entropy of codes uint8 [n, ceil(bits / 8)], n >= 1.

    With p_b the share of ones of bit b: balance = 1 - mean |2 p_b - 1|, and entropy = mean of
    -p_b log2 p_b - (1 - p_b) log2 (1 - p_b), both in [0, 1] and 1 for even bits. Only `unique_codes` is lower for
    correlated bits.

    Raises:
        CodesError: see `nsh.core.codes.check_codes`.

    Examples:
        >>> bit_figures(np.array([[0b0000_0000], [0b1000_0000]], np.uint8), bits=2)  # the second bit is always 0
        {'bit_balance': 0.5, 'constant_bits_share': 0.5, 'unique_codes': 2.0, 'code_entropy': 0.5}
    """
    ones = _count_ones(codes, bits=bits)
    share = ones / len(codes)
    return {
        "bit_balance": float(1 - np.abs(2 * share - 1).mean()),
        "constant_bits_share": float(((ones == 0) | (ones == len(codes))).mean()),
        "unique_codes": float(len(np.unique(codes, axis=0))),
        "code_entropy": float(_entropy(share).mean()),
    }


def _count_ones(codes: NDArray[np.uint8], *, bits: int) -> NDArray[np.int64]:
    ones = np.zeros(bits, dtype=np.int64)
    for start in range(0, len(codes), _ROWS_PER_BLOCK):
        ones += unpack(codes[start : start + _ROWS_PER_BLOCK], bits=bits).sum(axis=0)
    return ones


def _entropy(share: NDArray[np.float64]) -> NDArray[np.float64]:
    both = np.stack([share, 1 - share])
    logarithm = np.log2(both, out=np.zeros_like(both), where=both > 0)
    entropy: NDArray[np.float64] = -(both * logarithm).sum(axis=0)
    return entropy
