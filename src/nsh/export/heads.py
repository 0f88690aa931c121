"""Loads trained heads from disk. Knows no method by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from nsh.errors import ExportError
from nsh.methods import HashHead, create


def load_head(path: Path, *, method: str, parameters: Mapping[str, Any], dim: int, bits: int) -> HashHead:
    """Load the state dict at `path` into an empty head of `method`, from embeddings [n, dim] to logits [n, bits].

    Raises:
        ConfigError: no such method, or parameters it does not have.
        ExportError: no such file, no state dict, or one of another head.
    """
    head = create(method, parameters).head(dim, bits)
    if not path.is_file():
        raise ExportError(f"{path} is not here: train first, `dvc repro train@{method}-{bits}`")
    try:
        head.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # unpickling garbage raises nearly every built-in exception
        raise ExportError(
            f"{path} is no head of {method} with {bits} bits on embeddings of length {dim} ({error}): train again"
        ) from error
    head.eval()
    return head
