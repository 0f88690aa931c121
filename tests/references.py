"""Encoder files with a reference profile, made without onnx."""

import numpy as np
from numpy.typing import NDArray

from nsh.core.reference import REFERENCE_KEY, profile

METADATA = 14  # of ONNX's ModelProto; a repeated field of protobuf may be appended


def add_text(model: bytes, text: str) -> bytes:
    """The file with this text where the reference profile belongs."""
    return model + _field(METADATA, _field(1, REFERENCE_KEY.encode()) + _field(2, text.encode()))


def add_profile(model: bytes, held_out: NDArray[np.uint8], gallery: NDArray[np.uint8], *, bits: int) -> bytes:
    """The file with the reference profile of these codes."""
    made = profile(held_out, gallery, bits=bits)
    assert made is not None
    return add_text(model, made.to_json())


def _varint(number: int) -> bytes:
    head, rest = number & 0x7F, number >> 7
    return bytes([head | 0x80]) + _varint(rest) if rest else bytes([head])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content
