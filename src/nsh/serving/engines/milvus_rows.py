"""Items as rows of a Milvus collection. Knows no Milvus.

Quotes, backslashes, %, = and control characters of ids and metadata are stored as in URLs (%22). So a text stands in a
condition as it is stored, without escapes, which Milvus and Milvus Lite read in different ways.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from nsh.errors import CodesError

TEXT_BYTES = 65_535
"""UTF-8 bytes of an id, and of a column=value, as they are stored."""

CELLS = 1024
"""Metadata of an item, at most."""

LAST = chr(0x10FFFF)
"""A character above all that are stored."""

_SPELLED = {code: f"%{code:02X}" for code in (*range(32), 127, *b"\"'\\%=")} | {ord(LAST): quote(LAST)}


def row(key: int, id: str, *, code: NDArray[np.uint8], metadata: Mapping[str, str]) -> dict[str, Any]:
    """One item as Milvus takes it.

    Raises:
        CodesError: the id or its metadata are longer than Milvus can hold.
    """
    spelled, cells = spell(id), [cell(name, value) for name, value in metadata.items()]
    if len(cells) > CELLS or any(len(text.encode()) > TEXT_BYTES for text in (spelled, *cells)):
        raise CodesError(
            f"found the item {id[:40]!r} with a text that Milvus cannot hold: allowed are {TEXT_BYTES} bytes for an id "
            f"or a value, and {CELLS} metadata columns"
        )
    return {"key": key, "id": spelled, "code": code.tobytes(), "metadata": cells}


def spell(text: str) -> str:
    """A text as it is stored, and as it stands between the quotes of a condition."""
    return text.translate(_SPELLED)


def cell(name: str, value: str) -> str:
    """A column's name and value as they are stored."""
    return f"{spell(name)}={spell(value)}"


def read_cells(cells: Sequence[str]) -> dict[str, str]:
    """The metadata that `row` has stored."""
    pairs = (text.split("=") for text in cells)
    return {unquote(name): unquote(value) for name, value in pairs}
