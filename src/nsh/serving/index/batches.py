"""All items of one version of an index, block by block, for exports.

A block is read in a transaction of its own, so that writers wait for one block at most.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import code_bytes
from nsh.errors import IndexBusy
from nsh.serving.index import blocks, items
from nsh.serving.index.selection import Superseded, check_unchanged
from nsh.serving.index.snapshot import Snapshot
from nsh.system.progress import Progress, no_progress


class Batch(NamedTuple):
    """The items of one block, 0 to `blocks.KEYS`."""

    keys: NDArray[np.int64]  # [n], ascending in the order of insertion
    ids: list[str]
    codes: NDArray[np.uint8]  # [n, bytes]
    metadata: list[dict[str, str]]


def read_batches(snapshot: Snapshot, *, progress: Progress = no_progress) -> Iterable[Batch]:
    """The items of a version, in the order of their insertion; `progress` counts blocks.

    Raises:
        IndexBusy: a part that is not yet read was changed.
        IndexUnusable: the index cannot be read.
    """
    return progress(_read(snapshot), desc="export", total=len(snapshot.loaded.versions))


def _read(snapshot: Snapshot) -> Iterator[Batch]:
    width = code_bytes(snapshot.bits)
    for number, version in sorted(snapshot.loaded.versions.items()):
        with snapshot.database.reading() as connection:
            try:
                check_unchanged(connection, {number: version})
            except Superseded:
                folder = snapshot.database.folder
                raise IndexBusy(f"{folder} was changed meanwhile: stop what changes it, or export a backup") from None
            block = blocks.read_block(connection, number, width=width)
            found = items.by_key(connection, block.keys.tolist())
        described = [found[key] for key in block.keys.tolist()]
        ids, metadata = [item.id for item in described], [item.metadata for item in described]
        yield Batch(block.keys, ids, block.codes, metadata)
