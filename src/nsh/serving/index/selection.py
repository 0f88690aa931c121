"""Which items match a condition, asked block by block.

An answer is kept, and a block is asked again only after a change to it: a condition that most items match costs its
time once, even beside a writer. A question reads one block in a transaction of its own, so that neither searches nor
writers wait for it. Knows no code.
"""

import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.serving.index.blocks import ends_of
from nsh.serving.index.database import Database

FEW = 1 << 16
"""A condition that fewer items match is answered for all blocks at once."""

_KEPT = 4  # conditions; at 10,000,000 items up to 20 MB each

Places = NDArray[np.uint16]


class Superseded(Exception):
    """A part of the index was changed after the version that is searched."""


class Condition(NamedTuple):
    """SQL that is true of some items."""

    table: str
    by_key: str  # the table, to be read in the order of keys
    where: str
    arguments: tuple[Any, ...]


def id_begins(prefix: str) -> Condition:
    """The id begins with `prefix`."""
    # In UTF-8 order, every id with the prefix is below the prefix followed by 0xff, which no character contains.
    arguments = prefix, prefix.encode() + b"\xff"
    return Condition("item", "item NOT INDEXED", "id >= ? AND id < CAST(? AS TEXT)", arguments)


def column_is(column: str, value: str) -> Condition:
    """The metadata `column` has the `value`."""
    return Condition("metadata", "metadata", "name = ? AND value = ?", (column, value))


class Selections:
    """The answers of an index to conditions. Threads share it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._answers: dict[Condition, dict[int, tuple[int, Places]]] = {}

    def match(
        self, condition: Condition, *arrays: NDArray[np.int64], versions: Mapping[int, int]
    ) -> list[NDArray[np.bool_]]:
        """Masks bool [n]: which of the keys, int64 [n] ascending, match.

        Args:
            condition: of the items.
            arrays: keys of one version of the index.
            versions: of its blocks.

        Raises:
            Superseded: a block was changed after that version.
        """
        masks = [np.zeros(len(keys), np.bool_) for keys in arrays]
        for number, places in self._answer(condition, versions).items():
            for keys, mask in zip(arrays, masks, strict=True):
                start, end = np.searchsorted(keys, ends_of(number))
                mask[start:end] = np.isin(keys[start:end] - ends_of(number)[0], places, kind="table")
        return masks

    def _answer(self, condition: Condition, versions: Mapping[int, int]) -> dict[int, Places]:
        """The places of the items that match, for each block that has any."""
        answer = self._answers.get(condition)
        if answer is None:
            answer = self._ask_at_once(condition, versions) or {}
            if len(self._answers) >= _KEPT:
                self._answers.clear()
            self._answers[condition] = answer
        found = {}
        for number, version in versions.items():
            former = answer.get(number)
            if former is None or former[0] != version:
                answer[number] = former = version, self._ask(condition, number, version)
            if len(former[1]):
                found[number] = former[1]
        return found

    def _ask_at_once(self, condition: Condition, versions: Mapping[int, int]) -> dict[int, tuple[int, Places]] | None:
        with self._database.reading() as connection:
            check_unchanged(connection, versions)
            question = f"SELECT key FROM {condition.table} WHERE {condition.where} LIMIT {FEW}"
            keys = _fetch(connection, question, condition.arguments)
        if len(keys) == FEW:
            return None
        keys.sort()
        inside = {number: keys[slice(*np.searchsorted(keys, ends_of(number)))] for number in versions}
        return {number: (versions[number], _places(number, found)) for number, found in inside.items()}

    def _ask(self, condition: Condition, number: int, version: int) -> Places:
        with self._database.reading() as connection:
            check_unchanged(connection, {number: version})
            question = f"SELECT key FROM {condition.by_key} WHERE {condition.where} AND key >= ? AND key < ?"
            return _places(number, _fetch(connection, question, (*condition.arguments, *ends_of(number))))


def _places(number: int, keys: NDArray[np.int64]) -> Places:
    return (keys - ends_of(number)[0]).astype(np.uint16)


def _fetch(connection: sqlite3.Connection, question: str, arguments: tuple[Any, ...]) -> NDArray[np.int64]:
    """Keys as one text, which SQLite makes and numpy reads ten times as fast as row by row, and while others run."""
    (text,) = connection.execute(f"SELECT group_concat(key) FROM ({question})", arguments).fetchone()
    return np.empty(0, np.int64) if text is None else np.fromstring(text, np.int64, sep=",")


def check_unchanged(connection: sqlite3.Connection, versions: Mapping[int, int]) -> None:
    """Make sure that blocks are still of these versions.

    Raises:
        Superseded: one is not.
    """
    changed = connection.execute("SELECT number FROM block WHERE version > ?", (max(versions.values(), default=-1),))
    if any(number in versions for (number,) in changed):
        raise Superseded
