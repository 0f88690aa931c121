"""Copies an index into a new collection of Milvus.

The collection cannot be opened before it is complete. Whoever is interrupted drops what was made; whoever is killed
leaves it, and the next export to the same place drops it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nsh.errors import ConfigError, NshError
from nsh.serving.engines.milvus_address import parse
from nsh.serving.engines.milvus_collection import STEP, Collection, Settings, create
from nsh.serving.engines.milvus_rows import row
from nsh.serving.index import Index
from nsh.system.progress import Progress, no_progress


def export_to_milvus(index: Index, target: str, *, progress: Progress = no_progress) -> None:
    """Copy an index into a new collection; its items keep their order.

    Args:
        index: opened; it must not be changed meanwhile.
        target: URL of a collection that is not there (`milvus_address`).
        progress: counts blocks of items.

    Raises:
        ConfigError: the target is no such URL.
        CodesError: there is a collection already, or a text is too long for Milvus.
        IndexUnusable: the index or Milvus cannot be read or written.
    """
    address = parse(target)
    if address is None:
        raise ConfigError(f"found the target {target!r}: an export to Milvus goes to milvus://HOST:PORT/COLLECTION")
    with _new(create(address, Settings(index.bits, index.encoder_identity, tuple(index.columns)))) as made:
        for keys, ids, codes, metadata in index.batches(progress=progress):
            described = zip(keys.tolist(), ids, codes, metadata, strict=True)
            rows = [row(key, id, code=code, metadata=cells) for key, id, code, cells in described]
            for start in range(0, len(rows), STEP):
                made.upsert(rows[start : start + STEP])
        made.complete()


@contextmanager
def _new(made: Collection) -> Iterator[Collection]:
    """A new collection, which is dropped if the block fails."""
    try:
        yield made
    except BaseException:
        with suppress(NshError):
            made.drop()
        raise
