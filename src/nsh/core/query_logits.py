"""Logits of queries beside their codes on disk, for re-ranking: a file for each shard of `nsh.core.manifest`.

    00000.logits.npy    float32 [rows with status "ok", bits], in the manifest's order

Only the pipeline's queries have them. A code is the signs of its logits, so that no digest is needed to see whether the
two belong together (`nsh.core.metrics.evaluate` looks). Does not know how logits are made.
"""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nsh.core.manifest import Codes, codes_path
from nsh.errors import CodesError
from nsh.system.files import write_bytes


def write_logits(directory: Path, shard: int, logits: NDArray[np.float32]) -> None:
    """Write the logits of a shard; do it before its codes, which mark it as complete.

    Args:
        directory: the folder of codes.
        shard: its number.
        logits: float32 [codes of the shard, bits].

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_logits(Path(folder), 0, np.array([[0.5, -0.5]], np.float32))
        ...     [path.name for path in Path(folder).iterdir()]
        ['00000.logits.npy']
    """
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(logits), allow_pickle=False)
    write_bytes(_path(directory, shard), buffer.getvalue())


def read_logits(directory: Path, codes: Codes) -> NDArray[np.float32]:
    """The logits of all `codes` of a folder: float32 [n, bits], in their order.

    Raises:
        CodesError: a shard has none, or no logits of these codes.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> codes = Codes(["a.jpg"], np.array([[128]], np.uint8), {"bits": 2, "shards": [{}]}, [])
        >>> with TemporaryDirectory() as folder:
        ...     write_logits(Path(folder), 0, np.array([[0.5, -0.5]], np.float32))
        ...     read_logits(Path(folder), codes)
        array([[ 0.5, -0.5]], dtype=float32)
    """
    shape = len(codes.codes), codes.header["bits"]
    try:
        parts = [np.load(_path(directory, shard), allow_pickle=False) for shard in range(len(codes.header["shards"]))]
        logits = np.concatenate([np.empty((0, shape[1]), np.float32), *parts])
    except (OSError, EOFError, ValueError) as error:
        raise CodesError(f"no logits of the codes can be read from {directory} ({error}): encode again") from error
    if logits.shape != shape or logits.dtype != np.float32:
        found = f"{logits.dtype} {list(logits.shape)}"
        raise CodesError(f"{directory} must have logits float32 {list(shape)}, found {found}: encode again")
    return logits


def _path(directory: Path, shard: int) -> Path:
    return codes_path(directory, shard).with_suffix(".logits.npy")
