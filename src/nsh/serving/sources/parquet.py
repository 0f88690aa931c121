"""Images in Parquet files: a column of their bytes, or of Hugging Face's struct {bytes, path}.

An image's id is that of the column `id`, `key` or `__key__`; else the struct's path; else <name of the file>/<row>.
Needs pyarrow, which production does not carry otherwise.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from threading import Lock
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from nsh.errors import DataError, UnreadableImage
from nsh.serving.sources import LARGEST, Content, too_large
from nsh.serving.sources.members import Member, check_name

LARGEST_GROUP = 4 << 30
"""Bytes of the images of a row group, which is in memory as a whole."""

_IDS = ("id", "key", "__key__")
_USUAL = ("image", "img", "jpg", "png", "bytes")
"""Names of the image's column where several columns hold bytes: those of Hugging Face and of webdataset."""

_KEPT = 4  # row groups: threads read neighbouring batches
_GROUPS: OrderedDict[tuple[Hashable, int], Any] = OrderedDict()
_LOCK = Lock()


class Layout(NamedTuple):
    """Where a file has its images and ids, as names of columns; a dot leads into a struct."""

    images: str
    ids: str | None


def list_members(file: IO[bytes], name: str) -> Iterator[Member]:
    """The images of a file, in the order of its rows.

    Args:
        file: the Parquet file.
        name: of the file, for ids and messages.

    Raises:
        DataError: it is no Parquet file, has no column of images or several, or a row group that is too large.
    """
    opened = _open(file, name)
    layout = _find_columns(opened.schema_arrow, name)
    _check_groups(opened, layout, name)
    row = 0
    for group in range(opened.num_row_groups):
        count = opened.metadata.row_group(group).num_rows
        for place, image_id in enumerate(_read_ids(opened, layout, group, count)):
            own = f"{name}/{row + place}" if image_id is None else str(image_id)
            yield Member(own, check_name(own), (group, place))
        row += count


def read_members(file: IO[bytes], members: Sequence[Member], *, key: Hashable) -> Iterator[Content]:
    """The contents of images, in order.

    Args:
        file: the Parquet file.
        members: of it.
        key: names the file's content: the last row groups stay in memory.

    Raises:
        DataError: the file is damaged.
    """
    for member in members:
        if member.fault:
            yield UnreadableImage(member.fault)
            continue
        group, place = member.place
        content = _read_group(file, group, key=key)[place].as_py()
        if content is None:
            yield UnreadableImage("the row has no bytes")
        else:
            yield too_large() if len(content) > LARGEST else content


def _read_group(file: IO[bytes], group: int, *, key: Hashable) -> pa.ChunkedArray:
    with _LOCK:
        if (key, group) not in _GROUPS:
            opened = _open(file, "an archive")
            layout = _find_columns(opened.schema_arrow, "an archive")
            _GROUPS[key, group] = _read_column(opened, group, layout.images)
            while len(_GROUPS) > _KEPT:
                _GROUPS.popitem(last=False)
        return _GROUPS[key, group]


def _open(file: IO[bytes], name: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{name} is no whole Parquet file ({_line(error)}): fetch or make it again") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _read_column(opened: pq.ParquetFile, group: int, column: str) -> pa.ChunkedArray:
    try:
        found = opened.read_row_group(group, columns=[column], use_threads=False).column(0)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"row group {group} of a Parquet file is damaged ({_line(error)}): fetch or make it again"
        ) from error
    return found.flatten()[0] if pa.types.is_struct(found.type) else found


def _find_columns(schema: pa.Schema, name: str) -> Layout:
    kinds = {field.name: field.type for field in schema}
    ids = next((one for one in _IDS if one in kinds and _is_id(kinds[one])), None)
    images = {one: path for one, kind in kinds.items() if (path := _path_to_bytes(one, kind))}
    chosen = next((one for one in _USUAL if one in images), None) or (next(iter(images)) if len(images) == 1 else None)
    if chosen is None:
        raise DataError(
            f"{name} has {len(images)} columns of bytes ({', '.join(images) or 'none'}): allowed is one, or several of "
            f"which one is named {', '.join(_USUAL)}"
        )
    struct = kinds[chosen]
    if ids is None and pa.types.is_struct(struct) and struct.get_field_index("path") >= 0:
        ids = f"{chosen}.path"
    return Layout(images[chosen], ids)


def _is_id(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind))


def _path_to_bytes(name: str, kind: pa.DataType) -> str:
    """Where in a column there are bytes; "" if there are none."""
    if not pa.types.is_struct(kind):
        return name if _is_bytes(kind) else ""
    index = kind.get_field_index("bytes")
    return f"{name}.bytes" if index >= 0 and _is_bytes(kind.field(index).type) else ""


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _check_groups(opened: pq.ParquetFile, layout: Layout, name: str) -> None:
    for group in range(opened.num_row_groups):
        described = opened.metadata.row_group(group)
        columns = (described.column(number) for number in range(described.num_columns))
        size = sum(one.total_uncompressed_size for one in columns if one.path_in_schema == layout.images)
        if size > LARGEST_GROUP:
            raise DataError(
                f"row group {group} of {name} has {size} bytes of images, allowed are {LARGEST_GROUP}: write the file "
                "with fewer rows in a group"
            )


def _read_ids(opened: pq.ParquetFile, layout: Layout, group: int, count: int) -> list[Any]:
    return [None] * count if layout.ids is None else _read_column(opened, group, layout.ids).to_pylist()
