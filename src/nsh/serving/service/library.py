"""The index as the service uses it: many searches, one writer at a time, and a look now and then for newer versions.

Knows nothing of HTTP.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.errors import CodesError
from nsh.serving.encoder import Encoder
from nsh.serving.index import Filter, Hit, Index
from nsh.serving.service.metrics import Metrics


class Library:
    """An index, opened for the codes of one encoder."""

    def __init__(self, folder: Path, encoder: Encoder, metrics: Metrics) -> None:
        """Open the index in `folder`.

        Raises:
            CodesError: there is none, it cannot be read, or its codes are another encoder's.
        """
        self._folder = folder
        self._metrics = metrics
        self._writing = threading.Lock()
        self._refreshing = threading.Lock()
        self._index = Index.open(folder, readonly=True)
        if self._index.encoder_sha256 != encoder.sha256:
            raise CodesError(
                f"the index {folder} holds codes of encoder {self._index.encoder_sha256[:12]}, the encoder given is "
                f"{encoder.sha256[:12]}: give the index's own encoder, or build an index with this one"
            )
        self._count()

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return self._index.bits

    @property
    def encoder_sha256(self) -> str:
        """The digest of the encoder whose codes these are."""
        return self._index.encoder_sha256

    @property
    def version(self) -> int:
        """Of what is searched now."""
        return self._index.version

    def __len__(self) -> int:
        return len(self._index)

    def search(
        self, code: NDArray[np.uint8], *, k: int, radius: int | None = None, where: Filter | None = None
    ) -> list[Hit]:
        """The nearest `k` items to one code, uint8 [ceil(bits / 8)]; only those within `radius`, if given."""
        if radius is None:
            return self._index.search(code[None], k=k, where=where)[0]
        return self._index.search_radius(code[None], radius=radius, where=where, limit=k)[0]

    def find_code(self, id: str) -> NDArray[np.uint8] | None:
        """The code of an item; None where there is no such item."""
        try:
            return self._index.code_of(id)
        except CodesError:
            return None

    def add(
        self, ids: Sequence[str], codes: NDArray[np.uint8], metadata: Sequence[Mapping[str, str]] | None = None
    ) -> None:
        """Add or update items."""
        digest = self.encoder_sha256
        self._write(lambda index: index.add(ids, codes, metadata=metadata, encoder_sha256=digest))

    def remove(self, id: str) -> None:
        """Remove an item, which must be there."""
        self._write(lambda index: index.remove([id]))

    def refresh(self) -> None:
        """Search the newest complete version from now on."""
        with self._refreshing:
            self._index.refresh()
            self._count()

    def _write(self, change: Callable[[Index], Any]) -> None:
        with self._writing:
            change(Index.open(self._folder))
        self.refresh()

    def _count(self) -> None:
        self._metrics.items.set(len(self._index))
        self._metrics.version.set(self._index.version)
