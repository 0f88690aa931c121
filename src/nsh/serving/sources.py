"""Reads the content of images by their ids. Does not know how images were found, and decodes none."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

LARGEST = 1 << 30
"""Bytes of the largest file that is read whole; a larger one has no digest and is decoded from its path every time."""


class Source(Protocol):
    """Where images lie. Several threads read at once, and it can be sent to other processes."""

    def read(self, image_id: str) -> bytes | Path:
        """The content of an image; a path if it cannot be read whole, so that the encoder reports the error."""
        ...


@dataclass(frozen=True)
class Files:
    """Files below a folder; an id is the path from there."""

    root: Path

    def read(self, image_id: str) -> bytes | Path:
        """The content of a file; its path if it is no file, cannot be read, or is larger than `LARGEST`."""
        path = self.root / image_id
        with suppress(OSError):
            if path.is_file() and path.stat().st_size <= LARGEST:  # a pipe would never end
                return path.read_bytes()
        return path
