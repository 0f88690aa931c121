"""Rows of tables in CSV and JSON Lines files. Knows nothing of what the columns mean."""

import csv
import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nsh.errors import DataError

SUFFIXES = (".csv", ".jsonl")

Names = tuple[str, ...]
"""Names of one column, of which a table has exactly one."""


class Row(NamedTuple):
    """One row of a table."""

    where: str  # file and line, for messages
    cells: dict[str, Any]  # by column; in a CSV file all are texts


def is_table(name: str) -> bool:
    """Whether a file's name ends like a table's, in upper or lower case.

    Examples:
        >>> is_table("labels.CSV"), is_table("labels.txt")
        (True, False)
    """
    return name.lower().endswith(SUFFIXES)


def read_csv(path: Path, *, needed: Sequence[Names]) -> Iterator[Row]:
    r"""The rows of a UTF-8 CSV file whose first line names the columns; empty rows are left out.

    Args:
        path: a byte order mark and Windows line ends are allowed.
        needed: the columns that must be there.

    Raises:
        DataError: it is no such file, a column is missing or there twice, or a row has another number of cells.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.csv")
        ...     _ = path.write_text("id, colour\n1.jpg,red\n")
        ...     [row.cells for row in read_csv(path, needed=[("id",)])]
        [{'id': '1.jpg', 'colour': 'red'}]
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
            _check_columns(path, reader.fieldnames, needed)
            for cells in reader:
                where = f"{path}, line {reader.line_num}"
                if None in cells or None in cells.values():
                    raise DataError(f"{where} has another number of cells than the first line: mend it")
                if any(cells.values()):  # spreadsheets write empty rows below the last one
                    yield Row(where, cells)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV file in UTF-8 ({error})") from error


def read_json_lines(path: Path, *, needed: Sequence[Names]) -> Iterator[Row]:
    """The rows of a UTF-8 JSON Lines file, an object each; empty lines are left out.

    Arguments and errors are those of `read_csv`; every object must have the columns as keys.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.jsonl")
        ...     _ = path.write_text('{"id": "1.jpg", "labels": ["red", "round"]}')
        ...     [row.cells for row in read_json_lines(path, needed=[("id",)])]
        [{'id': '1.jpg', 'labels': ['red', 'round']}]
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as a JSON Lines file in UTF-8 ({error})") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _read_object(line, f"{path}, line {number}", needed)


def pick(cells: dict[str, Any], names: Names) -> Any:
    """The cell of the only one of `names` that is there.

    Examples:
        >>> pick({"path": "1.jpg", "label": "red"}, ("label", "labels"))
        'red'
    """
    return next(cells[name] for name in names if name in cells)


def _read_object(line: str, where: str, needed: Sequence[Names]) -> Row:
    try:
        cells = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where} is no JSON ({error}): mend it") from error
    if not isinstance(cells, dict):
        raise DataError(f"{where} has no JSON object (found {line.strip()[:40]}): write one in each line")
    for names in needed:
        if _count(cells, names) != 1:
            raise DataError(f"{where} must have one of {_describe(cells, names)}: mend it")
    return Row(where, cells)


def _check_columns(path: Path, found: Sequence[str], needed: Sequence[Names]) -> None:
    for names in needed:
        if not _count(found, names):
            raise DataError(f"{path} has no column {_describe(found, names)}: its first line must name the columns")
    if len(set(found)) < len(found) or any(_count(found, names) > 1 for names in needed):
        raise DataError(f"{path} has two columns of one name (found {', '.join(found)}): give each its own")


def _count(found: Collection[str], names: Names) -> int:
    return sum(name in found for name in names)


def _describe(found: Collection[str], names: Names) -> str:
    return f"{' or '.join(map(repr, names))} (found {', '.join(found) or 'nothing'})"
