"""Nested settings by dotted keys, as on a command line."""

from collections.abc import Iterator, Mapping
from typing import Any


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """{"train": {"seed": 0}} to {"train.seed": 0}, in the same order; empty blocks are dropped.

    Examples:
        >>> flatten({"matrix": {"bits": [16, 32]}, "train": {"seed": 0, "finetune": {"keep": "last"}}})
        {'matrix.bits': [16, 32], 'train.seed': 0, 'train.finetune.keep': 'last'}
    """
    return dict(_walk(values, ""))


def _walk(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _walk(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
