"""What was changed in an index since it was read: block by block, while others go on changing it.

Each block is read in a transaction of its own. So a reader follows an index of any size, holds up writers for one block
at most, and has seen every change once it has read all blocks while nobody writes (`database.writing`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import code_bytes
from nsh.errors import CodesError
from nsh.serving.index import blocks, items
from nsh.serving.index.batches import Batch
from nsh.serving.index.blocks import Block, ends_of
from nsh.serving.index.index import Index
from nsh.system.files import atomic_path


class Change(NamedTuple):
    """A block that was changed."""

    items: Batch  # all items of the block, as they are now
    altered: NDArray[np.bool_]  # bool [n]: which of them are new, or have another code


class Changes:
    """Follows one index. Holds its codes and keys as they were read last.

    Attributes:
        index: the index.
    """

    def __init__(self, index: Index) -> None:
        self.index, self._width = index, code_bytes(index.bits)
        self._seen: dict[int, Block] = {}

    def __iter__(self) -> Iterator[Change]:
        """The blocks that were changed since they were read last; one counts as read when the next is asked for.

        Raises:
            IndexUnusable: the index cannot be read.
        """
        for number in self._changed():
            with self.index.reading() as connection:
                block = blocks.read_block(connection, number, width=self._width)
                found = items.by_key(connection, block.keys.tolist())
            described = [found[key] for key in block.keys.tolist()]
            batch = Batch(block.keys, [one.id for one in described], block.codes, [one.metadata for one in described])
            yield Change(batch, _altered(self._seen.get(number), block))
            self._seen[number] = block

    def skip(self) -> Self:
        """Read all there is now, as if it had been asked for."""
        for number in self._changed():
            with self.index.reading() as connection:
                self._seen[number] = blocks.read_block(connection, number, width=self._width)
        return self

    def save(self, path: Path) -> None:
        """Write what was read last to a file."""
        seen = [block for _, block in sorted(self._seen.items())]
        keys = [np.empty(0, np.int64), *(block.keys for block in seen)]
        codes = [np.empty((0, self._width), np.uint8), *(block.codes for block in seen)]
        versions = np.array([(block.number, block.version) for block in seen], np.int64).reshape(-1, 2)
        with atomic_path(path) as partial, partial.open("wb") as file:
            np.savez(file, versions=versions, keys=np.concatenate(keys), codes=np.concatenate(codes))

    def resume(self, path: Path) -> Self:
        """Continue from what `save` wrote.

        Raises:
            CodesError: the file is not what was written.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                versions, keys, codes = file["versions"], file["keys"], file["codes"]
        except (ValueError, KeyError, EOFError, OSError) as error:
            raise CodesError(
                f"{path} cannot be read ({error}): delete the folder it is in, and deploy again"
            ) from error
        for number, version in versions.tolist():
            rows = slice(*np.searchsorted(keys, ends_of(number)))
            self._seen[number] = Block(number, version, keys[rows], codes[rows])
        return self

    def _changed(self) -> list[int]:
        with self.index.reading() as connection:
            versions = dict(connection.execute("SELECT number, version FROM block"))
        return sorted(n for n, version in versions.items() if n not in self._seen or self._seen[n].version != version)


def _altered(former: Block | None, block: Block) -> NDArray[np.bool_]:
    altered = np.ones(len(block.keys), np.bool_)
    if former is not None:
        _, old, new = np.intersect1d(former.keys, block.keys, assume_unique=True, return_indices=True)
        altered[new] = (former.codes[old] != block.codes[new]).any(axis=1)
    return altered
