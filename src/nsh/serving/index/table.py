"""Metadata of items from a CSV file. Knows nothing of the index."""

import csv
from collections.abc import Sequence
from pathlib import Path

from nsh.core.errors import DataError

KEY = "id"


def read_metadata(path: Path, ids: Sequence[str]) -> list[dict[str, str]]:
    """Read for each of the `ids` its columns; empty cells, and ids without a line, have none.

    Raises:
        DataError: it is no UTF-8 CSV file with a column `id`, or it names an id twice or none of the `ids`.
    """
    lines: dict[str, dict[str, str]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            if KEY not in (reader.fieldnames or ()):
                found = ", ".join(reader.fieldnames or ()) or "nothing"
                raise DataError(f"{path} has no column {KEY!r} (found {found}): its first line must name the columns")
            for line in reader:
                _take(lines, line, where=f"{path}, line {reader.line_num}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV file in UTF-8 ({error})") from error
    if ids and not any(name in lines for name in ids):
        raise DataError(f"{path} names none of the {len(ids)} ids that are added, such as {ids[0]!r}: compare the two")
    return [lines.get(name, {}) for name in ids]


def _take(lines: dict[str, dict[str, str]], line: dict[str, str], *, where: str) -> None:
    if None in line or None in line.values():
        raise DataError(f"{where} has another number of cells than the first line: mend it")
    name = line.pop(KEY)
    if name in lines:
        raise DataError(f"{where} names {name!r} again: keep one line for each id")
    lines[name] = {column: value for column, value in line.items() if value}
