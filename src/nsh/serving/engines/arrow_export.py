"""Writes an index into a Parquet file or a Lance data set: both through Arrow, in batches, complete or not at all.

    id          string
    code        Parquet: fixed-size binary; Lance: fixed-size list of uint8, which Lance can search by Hamming distance
    metadata    a struct with a string for each column, null where an item has none; absent if no item has metadata

The order of the rows is the order of insertion. The schema's metadata have `nsh.bits`, `nsh.encoder_identity` and
`nsh.bit_order`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from nsh.core.codes import code_bytes
from nsh.errors import CodesError
from nsh.serving.index import Index
from nsh.system.files import atomic_path
from nsh.system.folders import atomic_folder
from nsh.system.progress import Progress, no_progress

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")

_ROWS = 1 << 17  # of a group in Parquet


def export_to_parquet(index: Index, target: Path, *, progress: Progress = no_progress) -> None:
    """Write an index into a new Parquet file.

    Args:
        index: opened; it must not be changed meanwhile.
        target: the file, which must not be there.
        progress: counts blocks of items.

    Raises:
        CodesError: there is something at the target.
        IndexUnusable: the index cannot be read.
    """
    import pyarrow
    from pyarrow import parquet

    _check_new(target)
    schema = _schema(index, pyarrow.binary(code_bytes(index.bits)))
    with atomic_path(target) as partial, parquet.ParquetWriter(partial, schema) as writer:
        group = list[pyarrow.RecordBatch]()
        for batch in _convert(index, schema, progress):
            group.append(batch)
            if sum(len(part) for part in group) >= _ROWS:
                writer.write_table(pyarrow.Table.from_batches(group))
                group.clear()
        writer.write_table(pyarrow.Table.from_batches(group, schema))


def export_to_lance(index: Index, target: Path, *, progress: Progress = no_progress) -> None:
    """Write an index into a new Lance data set, a folder; arguments and errors as `export_to_parquet`."""
    import lance
    import pyarrow

    _check_new(target)
    schema = _schema(index, pyarrow.list_(pyarrow.uint8(), code_bytes(index.bits)))
    batches = _Kept(_convert(index, schema, progress))
    with atomic_folder(target) as partial:
        try:
            lance.write_dataset(iter(batches), partial, schema)
        except OSError as error:  # Lance turns every error of the batches into one
            raise batches.failure or error from None


class _Kept(Generic[T]):
    """An iterable that keeps what ended it.

    Attributes:
        failure: an error, or Ctrl-C; None while there is none.
    """

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[T]:
        try:
            yield from self._iterable
        except (Exception, KeyboardInterrupt) as failure:
            self.failure = failure
            raise


def _check_new(target: Path) -> None:
    if target.exists():
        raise CodesError(f"there is something at {target} already: name a new target, or delete it")


def _schema(index: Index, code: "pyarrow.DataType") -> "pyarrow.Schema":
    import pyarrow

    fields = [pyarrow.field("id", pyarrow.string(), nullable=False), pyarrow.field("code", code, nullable=False)]
    if columns := index.columns:
        fields.append(pyarrow.field("metadata", pyarrow.struct([(name, pyarrow.string()) for name in columns])))
    described = {
        "bits": str(index.bits),
        "encoder_identity": index.encoder_identity,
        "bit_order": "most significant first",
    }
    return pyarrow.schema(fields, {f"nsh.{name}": value for name, value in described.items()})


def _convert(index: Index, schema: "pyarrow.Schema", progress: Progress) -> "Iterator[pyarrow.RecordBatch]":
    import pyarrow

    for batch in index.batches(progress=progress):
        codes = pyarrow.array(np.ascontiguousarray(batch.codes).reshape(-1))
        columns = [pyarrow.array(batch.ids, pyarrow.string()), _pack(codes, schema.field("code").type)]
        if "metadata" in schema.names:
            columns.append(pyarrow.array(batch.metadata, schema.field("metadata").type))
        yield pyarrow.record_batch(columns, schema=schema)


def _pack(flat: "pyarrow.Array", kind: "pyarrow.DataType") -> "pyarrow.Array":
    """Bytes as codes, without copying them."""
    import pyarrow

    if pyarrow.types.is_fixed_size_list(kind):
        return pyarrow.FixedSizeListArray.from_arrays(flat, type=kind)
    return pyarrow.Array.from_buffers(kind, len(flat) // kind.byte_width, flat.buffers())
