"""Other encoders than the golden one, made from its bytes where neither torch nor onnx is installed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from nsh.core.identity import identity_of, read_contract

FEATURES = 64  # of the golden encoder's backbone


def write_encoder(path: Path, golden: Path, change: Callable[[np.ndarray, np.ndarray], tuple]) -> Path:
    """The golden encoder with another head: `change` turns its weights [bits, 64] and biases [bits] into new ones."""
    content = golden.read_bytes()
    contract = read_contract(content, name="golden")
    weights, biases = (_find(content, count) for count in (contract.bits * FEATURES, contract.bits))
    head = [np.frombuffer(content, np.float32, (end - start) // 4, start) for start, end in (weights, biases)]
    changed = change(head[0].reshape(contract.bits, FEATURES), head[1])
    for (start, end), array in zip((weights, biases), changed, strict=True):
        content = content[:start] + np.ascontiguousarray(array, np.float32).tobytes() + content[end:]
    identity = identity_of(content, contract)
    path.write_bytes(content.replace(contract.identity.encode(), identity.encode()))
    read_contract(path.read_bytes(), name=str(path))
    return path


def _find(content: bytes, count: int) -> tuple[int, int]:
    """The place of the last tensor of `count` float32, the head's: field 9 of its message, its length, its bytes."""
    length = 4 * count
    head = bytes([0x4A, *([length] if length < 128 else [length & 0x7F | 0x80, length >> 7])])
    start = content.rindex(head) + len(head)
    return start, start + length
