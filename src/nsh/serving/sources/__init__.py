"""Where images lie, and how their content is read: files, addresses of stores (`remote`), archives (`archives`).

A source does not know how its images were found, and decodes none.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nsh.errors import UnreadableImage

LARGEST = 1 << 30
"""Bytes of the largest image that is read whole; a larger file has no digest and is decoded every time."""

Content = bytes | Path | UnreadableImage
"""Of an image: its bytes; the path of a file that cannot be read whole; or why there is nothing to decode."""


class Source(Protocol):
    """Where images lie. Several threads read at once, and it can be sent to other processes."""

    def read(self, ids: Sequence[str], *, first: int) -> Iterator[Content]:
        """The contents of images that follow each other in the list of images, in order.

        Args:
            ids: of the images.
            first: the row of the first one in the list, >= 0.
        """
        ...


class Images(Protocol):
    """Images to encode: their ids in order, each once, and the source that reads them."""

    @property
    def ids(self) -> list[str]:
        """The ids."""
        ...

    @property
    def left_out(self) -> Counter[str]:
        """How many files were left out, by reason."""
        ...

    @property
    def source(self) -> Source:
        """Reads the images."""
        ...

    def any_below(self, folder: Path) -> bool:
        """Whether one of the images is a file in `folder` or below it."""
        ...


@dataclass(frozen=True)
class Files:
    """Files below a folder; an id is the path from there."""

    root: Path

    def read(self, ids: Sequence[str], *, first: int) -> Iterator[Content]:
        """The contents of files; the path of what is no file, cannot be read, or is larger than `LARGEST`."""
        return map(self._read, ids)

    def _read(self, image_id: str) -> Content:
        path = self.root / image_id
        with suppress(OSError):
            if path.is_file() and path.stat().st_size <= LARGEST:  # a pipe would never end
                return path.read_bytes()
        return path


def too_large() -> UnreadableImage:
    """The error of an image of more than `LARGEST` bytes."""
    return UnreadableImage(f"more than the {LARGEST} bytes allowed: make it smaller")
