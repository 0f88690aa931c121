"""The service's engine: parallel searches, one writer at a time, and a regular check for what others have changed.

Knows nothing of HTTP.
"""

import math
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import binarize, check_length, pack
from nsh.errors import IndexFull, UnknownItem
from nsh.serving.encoder import Encoder
from nsh.serving.engines.opening import open_engine
from nsh.serving.index import Filter, Hit, Reader, ScoredHit
from nsh.serving.index.engine import searchable_lengths
from nsh.serving.service.metrics import Metrics

FREED_BYTES = 1024 * 1024
"""Bytes by which the free disk space must grow until a full disk is no longer reported."""


class Found(NamedTuple):
    """The result of a search."""

    version: int | None  # of the index; None: its engine has no versions
    code: NDArray[np.uint8]  # the query's
    hits: list[Hit] | list[ScoredHit]


class Library:
    """An index on any engine, opened for one encoder.

    Attributes:
        address: folder of the index, or URL of a Milvus collection.
        fault: the error of the last change if the disk was and still is full; else "".
        lengths: bits by which it can be searched, ascending: of nested codes, and last of the codes it holds.
    """

    def __init__(self, address: str | Path, encoder: Encoder, metrics: Metrics) -> None:
        """Open the index at `address` (`nsh.serving.engines.opening`).

        Raises:
            CodesError: there is no index, it cannot be read, or its codes are another encoder's.
        """
        self.fault, self._free_when_full = "", 0
        self.address = address
        self._metrics = metrics
        self._writing = threading.Lock()
        self._refreshing = threading.Lock()
        self._index = open_engine(address)
        self.lengths = searchable_lengths(self._index, encoder.contract)
        self._count()

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return self._index.bits

    @property
    def encoder_identity(self) -> str:
        """The identity of the encoder that made the codes."""
        return self._index.encoder_identity

    @property
    def version(self) -> int | None:
        """The version that is searched now; None: the engine has no versions."""
        return self._index.version

    def __len__(self) -> int:
        return len(self._index)

    def search(
        self,
        query: NDArray[np.uint8] | str,
        *,
        k: int,
        radius: int | None = None,
        where: Filter | None = None,
        bits: int | None = None,
    ) -> Found:
        """The nearest `k` items to a code, uint8 [ceil(bits / 8)], or to an item's id, in one version of the index.

        If `radius` is given, only items within it. If `bits` is given, only the first bits are compared.

        Raises:
            UnknownItem: there is no item with this id.
            CodesError: the filter names a missing column, or codes cannot be cut to these bits.
        """
        check_length(bits or self.bits, self.lengths)

        def ask(reader: Reader) -> Found:
            code = reader.code_of(query) if isinstance(query, str) else query
            if radius is None:
                (hits,) = reader.search(code[None], k=k, where=where, bits=bits)
            else:
                (hits,) = reader.search_radius(code[None], radius=radius, where=where, limit=k, bits=bits)
            return Found(reader.version, code, hits)

        return self._index.read(ask)

    def search_reranked(
        self,
        logits: NDArray[np.float32],
        *,
        k: int,
        radius: int | None = None,
        where: Filter | None = None,
        bits: int | None = None,
    ) -> Found:
        """The best `k` items for an image by its logits, float32 [bits], in one version of the index.

        Raises:
            CodesError: the filter names a missing column, or codes cannot be cut to these bits.
        """
        check_length(bits or self.bits, self.lengths)

        def ask(reader: Reader) -> Found:
            (hits,) = reader.search_reranked(logits[None], k=k, radius=radius, where=where, bits=bits)
            return Found(reader.version, pack(binarize(logits[None]))[0], hits)

        return self._index.read(ask)

    def find_columns(self) -> list[str]:
        """The names of the metadata columns."""
        return self._index.columns

    def find_code(self, id: str) -> NDArray[np.uint8] | None:
        """The code of an item; None if there is no such item."""
        try:
            return self._index.code_of(id)
        except UnknownItem:
            return None

    def add(
        self, ids: Sequence[str], codes: NDArray[np.uint8], metadata: Sequence[Mapping[str, str]] | None = None
    ) -> None:
        """Add or update items."""
        identity = self.encoder_identity
        self._write(lambda: self._index.add(ids, codes, metadata=metadata, encoder_identity=identity))

    def remove(self, id: str) -> None:
        """Remove an existing item."""
        self._write(lambda: self._index.remove([id]))

    def refresh(self) -> None:
        """Search the newest complete version from now on."""
        with self._refreshing:
            self._index.refresh()
            self._count()
        if self.fault and self._free() > self._free_when_full + FREED_BYTES:
            self.fault = ""

    def _write(self, change: Callable[[], Any]) -> None:
        with self._writing:
            try:
                change()
            except IndexFull as error:
                self.fault, self._free_when_full = str(error), self._free()
                raise
            self.fault = ""
        self.refresh()

    def _free(self) -> int:
        """Bytes free on the disk of an index in a folder, the one engine that raises `IndexFull`."""
        return shutil.disk_usage(self.address).free

    def _count(self) -> None:
        self._metrics.items.set(len(self._index))
        version = self._index.version
        self._metrics.version.set(math.nan if version is None else version)
