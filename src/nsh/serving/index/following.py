"""Makes an index hold the codes of a folder again after the folder has changed. Reads no file of codes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.serving.index.index import Index


class Changes(NamedTuple):
    """How many items of an index were changed."""

    added: int
    updated: int
    removed: int


def follow(index: Index, ids: Sequence[str], codes: NDArray[np.uint8], *, encoder_identity: str) -> Changes:
    """Make `index` hold exactly these items: add, update and remove what differs. Metadata of kept items stay.

    Items come and change in one version, and go in the next. After an interruption the same call continues.

    Args:
        index: open for writing.
        ids: unique.
        codes: uint8 [n, ceil(bits / 8)], one for each id.
        encoder_identity: of the encoder that made the codes.

    Raises:
        CodesError: as `Index.add`.
        IndexUnusable: the index cannot be read or changed.
    """
    rows = {name: row for row, name in enumerate(ids)}
    kept, changed, gone = set[int](), set[int](), list[str]()
    for batch in index.batches():
        for name, code in zip(batch.ids, batch.codes, strict=True):
            row = rows.get(name)
            if row is None:
                gone.append(name)
            else:
                (kept if np.array_equal(codes[row], code) else changed).add(row)
    put = [row for row in range(len(ids)) if row not in kept]
    added = index.add([ids[row] for row in put], codes[put], encoder_identity=encoder_identity)
    return Changes(added, len(changed), index.remove(gone))
