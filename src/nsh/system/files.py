"""Files that are complete or absent, and their digests. Knows nothing of their content."""

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nsh.system.partial import check_written, reserve_file
from nsh.system.places import blaming


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of `path` that becomes `path` if the block succeeds, else vanishes.

    Works for a file; the parent folder is created. Readers never see half a file. A device or a pipe is given as it is.

    Raises:
        OSError: names `path` if it cannot be written, also where the library that writes does not say why.
    """
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with reserve_file(path) as partial, blaming(path, partial):
        yield partial
        check_written(partial)
        partial.replace(path)


def atomic_link(path: Path, target: str | Path) -> None:
    """Make `path` a symbolic link to `target`; at every moment it leads to the old or to the new target.

    One process at a time may do so.
    """
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    partial.symlink_to(target)
    partial.replace(path)


def try_to_write(path: Path) -> None:
    """Check, before long work, that `atomic_path` will be able to write.

    Raises:
        OSError: it will not.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    with reserve_file(path):
        pass


def expand_home(path: str) -> str:
    """The path with `~` or `~user` at its beginning as a shell expands it; nothing else is changed."""
    return os.path.expanduser(path)  # noqa: PTH111 - Path drops dots and slashes, and raises for unknown users


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write `content` to `path` atomically."""
    with atomic_path(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 `text` to `path` atomically."""
    with atomic_path(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Mapping[str, Any] | list[Any]) -> None:
    """Write `value` to `path` atomically, in the order given, two spaces deep, newline at the end.

    Raises:
        ValueError: a number is NaN or infinite: JSON has no word for it, and DVC and MLflow choke on it.
    """
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read one JSON document."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def sha256_bytes(content: bytes) -> str:
    """SHA-256 of `content`, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sha256_json(value: Any) -> str:
    """SHA-256 of what JSON can write, in hexadecimal; the order of keys does not count."""
    return sha256_bytes(json.dumps(value, sort_keys=True).encode())


def sha256_file(path: Path) -> str:
    """SHA-256 of the file's content, in hexadecimal, read in blocks."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
