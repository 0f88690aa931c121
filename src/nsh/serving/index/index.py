"""An index: string ids, packed codes and metadata in one SQLite file; exact search, one writer, any number of readers.

The folder must be on a local disk and may be mounted read-only; locks and mapped files are not reliable on a network
file system. Knows no image and no encoder, except the identity of the encoder whose codes it holds.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import code_bytes
from nsh.errors import CodesError
from nsh.serving.cores import cpu_quota
from nsh.serving.index import integrity, items, writer
from nsh.serving.index.batches import Batch, read_batches
from nsh.serving.index.database import Database
from nsh.serving.index.engine import Filter, Hit, ScoredHit, check_addition
from nsh.serving.index.selection import Superseded
from nsh.serving.index.snapshot import Snapshot, open_snapshot
from nsh.system.progress import Progress, no_progress

T = TypeVar("T")

_ATTEMPTS = 3  # to read while others write; after these, writers wait


class Index:
    """An opened index. Any number of threads may search it.

    Attributes:
        folder: its folder.
        threads: threads that a search of several codes may use.
    """

    def __init__(self, folder: Path, *, readonly: bool) -> None:
        """Use `create` or `open`."""
        self.folder, self.threads, self._readonly = _without_links(Path(folder)), cpu_quota(), readonly
        self._database = Database(self.folder)
        self._snapshot = open_snapshot(self._database, threads=self.threads)

    @classmethod
    def create(cls, folder: Path, *, bits: int, encoder_identity: str) -> Self:
        """Make an empty index in a new or empty folder.

        Args:
            folder: made, with its parents, if missing.
            bits: length of every code, 1..512.
            encoder_identity: of the encoder whose codes it will hold; codes of any other encoder are refused.

        Raises:
            CodesError: the folder is not empty, or a value is out of its range.
        """
        code_bytes(bits)  # refuses lengths that no code has
        writer.create(Path(folder), bits=bits, encoder_identity=encoder_identity)
        return cls(folder, readonly=False)

    @classmethod
    def open(cls, folder: Path, *, readonly: bool = False) -> Self:
        """Open an index at its newest complete version; the folder may be read-only.

        Args:
            folder: the index's folder.
            readonly: refuse changes.

        Raises:
            CodesError: there is no index, or it is damaged.
        """
        return cls(folder, readonly=readonly)

    def close(self) -> None:
        """Close the files; no thread may be searching. An index without references is closed automatically."""
        self._database.close()

    @property
    def bits(self) -> int:
        """Bits of every code."""
        return self._snapshot.bits

    @property
    def encoder_identity(self) -> str:
        """Identity of the encoder whose codes the index holds."""
        return self._snapshot.settings.encoder_identity

    @property
    def version(self) -> int:
        """Number of the version being read: 0 for a new index, plus 1 for every change."""
        return self._snapshot.version

    @property
    def columns(self) -> list[str]:
        """Names of the metadata columns."""
        return self.read(Snapshot.columns)

    def __len__(self) -> int:
        return len(self._snapshot)

    def add(
        self,
        ids: Sequence[str],
        codes: NDArray[np.uint8],
        *,
        metadata: Sequence[Mapping[str, str]] | None = None,
        encoder_identity: str,
    ) -> int:
        """Add items, all of them or none; return how many of the ids are new.

        Args:
            ids: unique; an existing id gets the new code and keeps its place in the order of insertion.
            codes: uint8 [n, ceil(bits / 8)], one for each id.
            metadata: for each id its columns and values, which replace all former ones; None: metadata stay.
            encoder_identity: of the encoder that made the codes.

        Raises:
            CodesError: the codes are of another encoder or length, an id is not valid or occurs twice, the index is
                open for reading only, or another process is writing.
        """
        self._check_writable()
        check_addition(self, ids, codes, metadata=metadata, encoder_identity=encoder_identity)
        if not ids:
            return 0
        added = writer.add(self.folder, ids, codes, metadata=metadata)
        self.refresh()
        return added

    def remove(self, ids: Sequence[str]) -> int:
        """Remove items, all of them or none; return how many.

        Raises:
            CodesError: an id is missing, the index is open for reading only, or another process is writing.
        """
        self._check_writable()
        unique = list(dict.fromkeys(ids))
        if unique:
            writer.remove(self.folder, unique)
            self.refresh()
        return len(unique)

    def read(self, ask: Callable[[Snapshot], T]) -> T:
        """Call `ask` with a snapshot of one version, the newest of when it begins.

        `ask` is called again if another process changes items that it meets. In the last attempt, changes wait for it.
        """
        for _ in range(_ATTEMPTS):
            self.refresh()
            with suppress(Superseded):
                return ask(self._snapshot)
        with self._database.refreshing, self._database.reading():
            self.refresh()
            return ask(self._snapshot)

    def search(
        self, codes: NDArray[np.uint8], *, k: int, where: Filter | None = None, bits: int | None = None
    ) -> list[list[Hit]]:
        """The k nearest items of each code, by (distance, order of insertion); all items if there are fewer.

        Args:
            codes: uint8 [q, ceil(bits / 8)].
            k: at least 1.
            where: a filter of the items.
            bits: only the first this many bits of each code are compared, a length of the encoder's nested codes
                (`EncoderContract.lengths`); None: all. Distances, radius and scores are those of these bits.

        Raises:
            CodesError: a code of another length, k < 1, more bits than there are, or a filter on a missing column.
            IndexUnusable: the index cannot be read.
        """
        return self.read(lambda snapshot: snapshot.search(codes, k=k, where=where, bits=bits))

    def search_radius(
        self,
        codes: NDArray[np.uint8],
        *,
        radius: int,
        where: Filter | None = None,
        limit: int | None = None,
        bits: int | None = None,
    ) -> list[list[Hit]]:
        """All items at a distance <= `radius` of each code, by (distance, order of insertion).

        Args:
            codes: uint8 [q, ceil(bits / 8)].
            radius: bits, inclusive; 0 finds equal codes.
            where: a filter of the items.
            limit: at most this many items for each code, the nearest ones. Without it, memory grows with their number.
            bits: as in `search`.

        Raises:
            CodesError: a code of another length, a negative radius, limit < 1, or a filter on a missing column.
            IndexUnusable: the index cannot be read.
        """
        return self.read(
            lambda snapshot: snapshot.search_radius(codes, radius=radius, where=where, limit=limit, bits=bits)
        )

    def search_reranked(
        self,
        logits: NDArray[np.floating[Any]],
        *,
        k: int,
        radius: int | None = None,
        where: Filter | None = None,
        bits: int | None = None,
    ) -> list[list[ScoredHit]]:
        """The k best items for each query by its logits, best first (`nsh.core.reranking`).

        Looked for among the max(k, 1000) nearest, which are found exactly. Equal scores are ordered by (distance, order
        of insertion).

        Args:
            logits: float [q, bits], of the index's encoder.
            k: at least 1.
            radius: bits, inclusive: only items at this distance at most; None: at any.
            where: a filter of the items.
            bits: as in `search`.

        Raises:
            CodesError: logits that are not finite or of another length, k < 1, a negative radius, or a filter on a
                missing column.
            IndexUnusable: the index cannot be read.
        """
        return self.read(lambda snapshot: snapshot.search_reranked(logits, k=k, radius=radius, where=where, bits=bits))

    def code_of(self, id: str) -> NDArray[np.uint8]:
        """The code of an item, uint8 [ceil(bits / 8)].

        Raises:
            UnknownItem: there is no such item.
            IndexUnusable: the index cannot be read.
        """
        return self.read(lambda snapshot: snapshot.code_of(id))

    def describe(self, ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """The metadata of those of the ids that the newest version has."""
        with self._database.reading() as connection:
            return {name: item.metadata for name, item in items.by_id(connection, ids).items()}

    def ids_beyond(self, other: Self) -> list[str]:
        """The ids that this index has and `other` does not: compares all ids, a second for some millions."""
        return self._database.ids_beyond(other.folder)

    def sample(self, count: int, *, seed: int) -> tuple[list[str], NDArray[np.uint8]]:
        """The ids and codes, uint8 [n, bytes], of n <= `count` items, drawn with `seed`, each at most once."""
        return self.read(lambda snapshot: snapshot.sample(count, seed=seed))

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A read transaction of the database; no change is committed before its end."""
        return self._database.reading()

    def batches(self, *, progress: Progress = no_progress) -> Iterable[Batch]:
        """All items of the version that is open, block by block, in the order of insertion; `progress` counts blocks.

        Raises:
            IndexBusy: a part that is not yet read was changed.
            IndexUnusable: the index cannot be read.
        """
        return read_batches(self._snapshot, progress=progress)

    def refresh(self) -> None:
        """Move to the newest complete version, by reading the blocks of codes that were changed since.

        Raises:
            IndexUnusable: the index can no longer be read.
        """
        with self._database.refreshing:
            self._snapshot = self._snapshot.newer()

    def check(self) -> None:
        """Read the whole index, and make sure that it is what was written; takes a minute for 10,000,000 items.

        Raises:
            IndexDamaged: it is not.
        """
        with self._database.reading() as connection:
            integrity.check(connection, self.folder)

    def _check_writable(self) -> None:
        if self._readonly:
            raise CodesError(f"{self.folder} was opened for reading only: open it with readonly=False to change it")


def _without_links(folder: Path) -> Path:
    """The folder itself: a link may lead to another index later, whose codes are another encoder's.

    Where no link leads to it, it stays as the user wrote it, for messages.
    """
    place = folder.resolve()
    return folder if place == folder.absolute() else place
