"""Folders that are either whole or absent. Knows nothing of what is in them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary sibling of `path` that takes its place if the block succeeds, else vanishes.

    What was at `path` before stays until the block has succeeded.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    former = path.with_name(f".{path.name}.{os.getpid()}.former")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        if path.exists():
            path.replace(former)
        partial.replace(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(former, ignore_errors=True)
