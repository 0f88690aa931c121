"""Binary codes: the bit rule, and the layout of bits in bytes.

A bit is 1 if its logit is > 0 (a logit of exactly 0 gives 0). Bits are packed most significant first: bit 0 of a code
is the 128 of its first byte. If the length is no multiple of 8, the code ends in zeros. Knows no network, file or
distance.
"""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.errors import CodesError

MAX_BITS = 512


def code_bytes(bits: int) -> int:
    """Bytes of a packed code of `bits` bits: ceil(bits / 8).

    Raises:
        CodesError: `bits` is no integer in 1..512.

    Examples:
        >>> code_bytes(32), code_bytes(12)
        (4, 2)
    """
    try:
        length = operator.index(bits)
    except TypeError:
        length = 0
    if isinstance(bits, bool) or not 1 <= length <= MAX_BITS:
        raise CodesError(f"a code cannot have {bits!r} bits: choose a whole number from 1 to {MAX_BITS}")
    return -(-length // 8)


def binarize(logits: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Bits of `logits` (float [n, bits], any scale): True if the logit is > 0.

    Raises:
        CodesError: not a float array [n, bits] with bits in 1..512, or a logit is NaN (infinities have a sign).

    Examples:
        >>> binarize(np.array([[0.7, -0.2, 0.0]]))
        array([[ True, False, False]])
    """
    if logits.ndim != 2 or not np.issubdtype(logits.dtype, np.floating):
        raise CodesError(f"logits must be a float array [n, bits], found {_describe(logits)}")
    code_bytes(logits.shape[1])
    if np.isnan(logits).any():
        raise CodesError("a logit is NaN, which is neither side of the bit rule: look at the network or its input")
    bits: NDArray[np.bool_] = logits > 0
    return bits


def pack(bits: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Pack bool [n, bits] into uint8 [n, ceil(bits / 8)], most significant bit first, zero-padded.

    Raises:
        CodesError: not a bool array [n, bits] with bits in 1..512.

    Examples:
        >>> pack(np.array([[True, False, True, True]]))  # 1011, then four zeros
        array([[176]], dtype=uint8)
    """
    if bits.ndim != 2 or bits.dtype != np.bool_:
        raise CodesError(f"bits to pack must be a bool array [n, bits], found {_describe(bits)}")
    code_bytes(bits.shape[1])
    return np.packbits(bits, axis=1, bitorder="big")


def unpack(codes: NDArray[np.uint8], *, bits: int) -> NDArray[np.bool_]:
    """Undo `pack`: uint8 [n, ceil(bits / 8)] to bool [n, bits].

    Raises:
        CodesError: see `check_codes`.

    Examples:
        >>> unpack(np.array([[176]], np.uint8), bits=4)
        array([[ True, False,  True,  True]])
    """
    check_codes(codes, bits=bits)
    return np.unpackbits(codes, axis=1, count=bits, bitorder="big").view(np.bool_)


def first_bits(codes: NDArray[np.uint8], *, bits: int) -> NDArray[np.uint8]:
    """A copy of the first `bits` bits of packed codes: uint8 [n, bytes] to uint8 [n, ceil(bits / 8)], zero-padded.

    Raises:
        CodesError: the codes are shorter, or `bits` is no integer in 1..512.

    Examples:
        >>> first_bits(np.array([[0b1011_0111, 0b1000_0000]], np.uint8), bits=4)  # 1011, then four zeros
        array([[176]], dtype=uint8)
    """
    width = code_bytes(bits)
    if codes.dtype != np.uint8 or codes.ndim != 2 or codes.shape[1] < width:
        raise CodesError(f"codes of {bits} bits or more must be a uint8 array, found {_describe(codes)}")
    cut = codes[:, :width].copy()
    cut[:, -1] &= 0xFF << (8 * width - bits) & 0xFF
    return cut


def check_length(bits: int, lengths: Sequence[int]) -> None:
    """Make sure that the first `bits` bits of codes are codes themselves.

    Args:
        bits: the length asked for.
        lengths: to which the codes can be cut, ascending; last the length that they have.

    Raises:
        CodesError: `bits` is none of them.

    Examples:
        >>> check_length(8, [8, 16, 32])
        >>> check_length(12, [8, 16, 32])
        Traceback (most recent call last):
        nsh.errors.CodesError: found 12 bits, the codes can be cut to 8, 16, 32: choose one of these
    """
    if bits in lengths:
        return
    if len(lengths) > 1:
        allowed = ", ".join(map(str, lengths))
        raise CodesError(f"found {bits} bits, the codes can be cut to {allowed}: choose one of these")
    raise CodesError(
        f"found {bits} bits, the codes have {lengths[0]} and cannot be cut: use all of them, or an encoder of nested "
        "codes (method nsh_nested)"
    )


def check_codes(codes: NDArray[np.uint8], *, bits: int) -> None:
    """Make sure that `codes` are packed codes of `bits` bits.

    Raises:
        CodesError: not uint8 [n, ceil(bits / 8)], or a padding bit is set: then the codes are of another length,
            or were packed least significant bit first.

    Examples:
        >>> check_codes(np.array([[0b1011_0000]], np.uint8), bits=4)
        >>> check_codes(np.array([[0b0000_1101]], np.uint8), bits=4)
        Traceback (most recent call last):
        nsh.errors.CodesError: codes of 4 bits must end in 4 zero bits, found a 1 there: ...
    """
    width = code_bytes(bits)
    if codes.dtype != np.uint8 or codes.ndim != 2 or codes.shape[1] != width:
        raise CodesError(f"codes of {bits} bits must be a uint8 array [n, {width}], found {_describe(codes)}")
    padding = np.uint8((1 << (8 * width - bits)) - 1)
    if padding and (codes[:, -1] & padding).any():
        raise CodesError(
            f"codes of {bits} bits must end in {8 * width - bits} zero bits, found a 1 there: "
            "they are longer, or were packed with the least significant bit first"
        )


def _describe(array: NDArray[Any]) -> str:
    return f"{array.dtype} {list(array.shape)}"
