"""Metadata of items from a CSV file. Knows nothing of the index."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nsh.core.names import Matches, describe_matches, listed, match
from nsh.core.tables import read_csv
from nsh.errors import DataError

KEY = "id"

Cells = dict[str, str]


@dataclass(frozen=True)
class MatchedMetadata:
    """The lines of a CSV file matched with items."""

    items: list[Cells]  # the columns and values of each item; empty if no line names it
    without_line: list[str]  # ids that no line names
    unmatched: list[str]  # names in the file that are none of the ids

    def describe(self) -> str:
        """How many items have a line, and how many lines an item, with examples of those that do not match."""
        return describe_matches(len(self.items), self.without_line, self.unmatched, of="item", have="a line")


def read_metadata(path: Path, ids: Sequence[str]) -> MatchedMetadata:
    """Read the columns of each of the `ids`; empty cells are left out.

    A line names an id as `nsh.core.names.match` says: `./` before it, another form of its accents, backslashes, and
    spaces at its ends do not matter.

    Raises:
        DataError: it is no UTF-8 CSV file with a column `id`, or it names an id twice or none of the `ids`.
    """
    lines = _read_lines(path)
    matches = match(lines, ids)
    if ids and not matches.ids:
        raise DataError(
            f"{path} names none of the {len(ids)} ids that are added, such as {ids[0]!r}, but "
            f"{listed(matches.unmatched) or 'nothing'}: compare the two"
        )
    by_id = _turn(matches, path)
    cells = [lines[by_id[one]] if one in by_id else {} for one in ids]
    return MatchedMetadata(cells, [one for one in ids if one not in by_id], matches.unmatched)


def _read_lines(path: Path) -> dict[str, Cells]:
    """The cells of each name in the file."""
    lines: dict[str, Cells] = {}
    for row in read_csv(path, needed=[(KEY,)]):
        name = row.cells.pop(KEY)
        if name in lines:
            raise DataError(f"{row.where} names {name!r} again: keep one line for each id")
        lines[name] = {column: value for column, value in row.cells.items() if value}
    return lines


def _turn(matches: Matches, path: Path) -> dict[str, str]:
    """The name of each id."""
    by_id: dict[str, str] = {}
    for name, one in matches.ids.items():
        if one in by_id:
            raise DataError(f"{path} names {one!r} again, as {by_id[one]!r} and {name!r}: keep one line for each id")
        by_id[one] = name
    return by_id
