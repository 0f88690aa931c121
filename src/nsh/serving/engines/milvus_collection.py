"""A collection of Milvus that holds an index: its fields, its settings, and the calls to it.

    key         int64, the primary key, ascending in the order of insertion
    id          text
    code        binary vector of the code's bytes, with the exact index BIN_FLAT and the metric HAMMING
    metadata    list of texts, `column=value` each (`milvus_rows`)

The collection's description is a JSON object: schema, bits, encoder_identity, and the metadata columns it began with.
A second collection, COLLECTION_columns, has the names of later ones. It is made last, so that without it the export did
not finish: Milvus Lite can neither rename a collection nor change a description.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from nsh.core.codes import code_bytes
from nsh.errors import CodesError, IndexMissing, IndexUnusable
from nsh.serving.engines.milvus_address import Address
from nsh.serving.engines.milvus_connection import PATIENCE, connect, translated
from nsh.serving.engines.milvus_rows import CELLS, TEXT_BYTES

if TYPE_CHECKING:
    from pymilvus import MilvusClient

SCHEMA = 1
LARGEST = 16_384
"""Rows of one answer of Milvus, at most."""

STEP = 1000
"""Items of one call that looks up ids or changes items."""

_MARK = "nsh"


class Settings(NamedTuple):
    """What a collection is, from its description."""

    bits: int
    encoder_identity: str
    columns: tuple[str, ...]  # of the metadata, when the collection was made


class Collection:
    """Calls to one collection. Threads may share it. Every method may raise `IndexUnusable`.

    Attributes:
        address: where it is.
        settings: from its description.
    """

    def __init__(self, client: "MilvusClient", address: Address, settings: Settings) -> None:
        """Use `open` or `create`."""
        self._client, self.address, self.settings = client, address, settings

    @classmethod
    def open(cls, address: Address) -> Self:
        """Open a complete collection.

        Raises:
            IndexMissing: there is none.
            IndexUnusable: it is not one of ours, or Milvus does not answer.
        """
        if address.file is not None and not address.file.exists():  # Milvus Lite would make one
            raise _missing(address)
        client = connect(address)
        with translated(address):
            opened = cls(client, address, read_settings(client, address))
            for name in (address.collection, columns_of(address)):
                client.load_collection(name, timeout=PATIENCE)
        return opened

    @contextmanager
    def _calling(self) -> Iterator[None]:
        with translated(self.address):
            yield

    def read_settings(self) -> Settings:
        """The settings as they are now."""
        with self._calling():
            return read_settings(self._client, self.address)

    def count(self) -> int:
        """The number of items."""
        with self._calling():
            (row,) = self._client.query(
                self.address.collection, filter="", output_fields=["count(*)"], timeout=PATIENCE
            )
        return int(row["count(*)"])

    def columns(self) -> list[str]:
        """The names of the metadata columns, ascending."""
        with self._calling():
            rows = self._client.query(
                columns_of(self.address), filter="key >= 0", output_fields=["name"], limit=LARGEST, timeout=PATIENCE
            )
        return sorted({*self.settings.columns, *(row["name"] for row in rows)})

    def add_columns(self, names: Sequence[str]) -> None:
        """Add names of columns."""
        with self._calling():
            self._client.upsert(columns_of(self.address), [_column(name) for name in names], timeout=PATIENCE)

    def search(
        self, codes: Sequence[bytes], *, limit: int, where: str, exactly: int | None = None
    ) -> list[list[tuple[int, int]]]:
        """Distances and keys of the nearest items of each code; which of equally near ones is left to Milvus.

        Args:
            codes: the bytes of each.
            limit: items for each code, at most `LARGEST`.
            where: a condition, or "".
            exactly: bits: only items at this distance.
        """
        ring = {} if exactly is None else {"radius": exactly + 1, "range_filter": exactly}
        with self._calling():
            answers = self._client.search(
                self.address.collection,
                data=list(codes),
                limit=limit,
                filter=where,
                search_params={"metric_type": "HAMMING", "params": ring},
                timeout=PATIENCE,
            )
        return [[(int(hit["distance"]), _key(hit)) for hit in hits] for hits in answers]

    def fetch(self, where: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Fields of the items for which a condition is true, at most `LARGEST`."""
        with self._calling():
            return list(
                self._client.query(
                    self.address.collection, filter=where, output_fields=list(fields), limit=LARGEST, timeout=PATIENCE
                )
            )

    def upsert(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows, and replace those whose keys are there."""
        with self._calling():
            self._client.upsert(self.address.collection, list(rows), timeout=PATIENCE)

    def delete(self, keys: Sequence[int]) -> None:
        """Delete the rows of some keys."""
        with self._calling():
            self._client.delete(self.address.collection, ids=list(keys), timeout=PATIENCE)

    def drop(self) -> None:
        """Drop the collection."""
        with self._calling():
            for name in (columns_of(self.address), self.address.collection):
                if self._client.has_collection(name, timeout=PATIENCE):
                    self._client.drop_collection(name, timeout=PATIENCE)

    def complete(self) -> None:
        """Declare a new collection complete."""
        with self._calling():
            _create(self._client, columns_of(self.address), {"name": TEXT_BYTES}, bits=8)


def columns_of(address: Address) -> str:
    """The name of the collection that has the names of later columns."""
    return f"{address.collection}_columns"


def create(address: Address, settings: Settings) -> Collection:
    """Make an empty collection, which is not complete; one whose export did not finish is deleted before.

    Raises:
        CodesError: there is a complete one, or one of somebody else's.
        IndexUnusable: Milvus does not answer, or cannot make it.
    """
    client = connect(address)
    with translated(address):
        if client.has_collection(address.collection, timeout=PATIENCE):
            if client.has_collection(columns_of(address), timeout=PATIENCE):
                raise CodesError(f"there is a collection at {address.url} already: name a new one, or drop it there")
            _describe(client, address)
            client.drop_collection(address.collection, timeout=PATIENCE)
        made = Collection(client, address, settings)
        description = json.dumps({_MARK: SCHEMA} | settings._asdict())
        _create(client, address.collection, {"id": TEXT_BYTES}, bits=settings.bits, description=description)
    return made


def _create(client: "MilvusClient", name: str, texts: Mapping[str, int], *, bits: int, description: str = "") -> None:
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
    schema.add_field("key", DataType.INT64, is_primary=True)
    for field, length in texts.items():
        schema.add_field(field, DataType.VARCHAR, max_length=length)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * code_bytes(bits))
    if description:
        schema.add_field(
            "metadata", DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=CELLS, max_length=TEXT_BYTES
        )
    indexes = MilvusClient.prepare_index_params()
    indexes.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
    client.create_collection(name, schema=schema, index_params=indexes, consistency_level="Strong", timeout=PATIENCE)


def read_settings(client: "MilvusClient", address: Address) -> Settings:
    """The settings of a complete collection.

    Raises:
        IndexMissing: there is none.
        IndexUnusable: it is not one of ours, or of another schema.
    """
    if not client.has_collection(address.collection, timeout=PATIENCE):
        raise _missing(address)
    described = _describe(client, address)
    if not client.has_collection(columns_of(address), timeout=PATIENCE):
        raise IndexMissing(f"the export to {address.url} did not finish: run `nsh index export --to milvus` again")
    if described[_MARK] != SCHEMA:
        raise IndexUnusable(
            f"{address.url} has schema {described[_MARK]}, and this version reads {SCHEMA}: use the version of nsh "
            "that made it"
        )
    return Settings(int(described["bits"]), str(described["encoder_identity"]), tuple(described["columns"]))


def _missing(address: Address) -> IndexMissing:
    return IndexMissing(f"there is no collection at {address.url}: make one with `nsh index export --to milvus`")


def _describe(client: "MilvusClient", address: Address) -> dict[str, Any]:
    text = client.describe_collection(address.collection, timeout=PATIENCE).get("description", "")
    try:
        described = json.loads(text)
        if isinstance(described, dict) and _MARK in described:
            return described
    except ValueError:
        pass
    raise IndexUnusable(f"the collection at {address.url} was not made by nsh: name one that `nsh index export` made")


def _key(hit: Mapping[str, Any]) -> int:
    """The primary key of a hit: a server names it as the field, Milvus Lite names it id."""
    return int(hit["key"] if "key" in hit else hit["id"])


def _column(name: str) -> dict[str, Any]:
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1
    return {"key": key, "name": name, "code": b"\0"}
