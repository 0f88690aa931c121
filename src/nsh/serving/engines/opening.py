"""Opens the engine that an address means: the SQLite index in a folder, or a Milvus collection."""

from pathlib import Path

from nsh.serving.engines.milvus_address import parse
from nsh.serving.index import Engine, Index


def open_engine(address: str | Path, *, readonly: bool = False) -> Engine:
    """Open an index.

    Args:
        address: folder of an index, or the URL of a Milvus collection (`milvus_address`).
        readonly: refuse changes.

    Raises:
        ConfigError: the URL is not one of a collection.
        IndexUnusable: there is no index, or it cannot be read.
    """
    collection = parse(str(address))
    if collection is None:
        return Index.open(Path(address), readonly=readonly)
    from nsh.serving.engines.milvus import MilvusIndex

    return MilvusIndex(collection, readonly=readonly)
