"""The codes of an index in memory, and how they follow its changes block by block. Knows no file and no id."""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nsh.serving.index.blocks import Block, ends_of
from nsh.serving.index.rows import Part, Rows, join, no_rows

LARGEST_DELTA = 1 << 16
"""Rows by which a version may differ from its base before a new base is made."""


@dataclass(frozen=True, eq=False)
class Difference:
    """How a block differs from the base."""

    gone: NDArray[np.int64]  # rows of the base that are no longer as they were
    new: Part


@dataclass(frozen=True, eq=False)
class Loaded:
    """The codes of one version.

    Attributes:
        base: rows that several versions share.
        versions: of each block, the version that changed it last.
        differences: of the blocks that changed after the base was made.
    """

    base: Part
    versions: Mapping[int, int]
    differences: Mapping[int, Difference]

    @classmethod
    def read(cls, blocks: Iterable[Block], *, items: int, width: int) -> Self:
        """Load all blocks, which come in the order of their keys.

        Args:
            blocks: read one by one.
            items: the number of rows in all.
            width: bytes of a code.

        Raises:
            sqlite3.DatabaseError: there are fewer or more rows.
        """
        codes, keys = np.empty((items, width), np.uint8), np.empty(items, np.int64)
        start, versions = 0, {}
        for block in blocks:
            end = start + len(block.keys)
            if end <= items:
                codes[start:end], keys[start:end] = block.codes, block.keys
            start, versions[block.number] = end, block.version
        _check_count(start, items)
        return cls(Part(codes, keys), versions, {})

    def after(self, blocks: Iterable[Block], *, items: int) -> Self:
        """The version in which these blocks have replaced the former ones, and which has `items` rows in all.

        Raises:
            sqlite3.DatabaseError: it has fewer or more.
        """
        changed = {block.number: (block.version, _differ(self.base, block)) for block in blocks}
        versions = {**self.versions, **{number: version for number, (version, _) in changed.items()}}
        differences = {**self.differences, **{number: difference for number, (_, difference) in changed.items()}}
        after = type(self)(self.base, versions, differences)
        _check_count(len(self.base) + sum(len(one.new) - len(one.gone) for one in differences.values()), items)
        if sum(len(one.gone) + len(one.new) for one in differences.values()) <= LARGEST_DELTA:
            return after
        rows = after.rows
        kept = rows.base if rows.alive is None else rows.base.take(rows.alive)
        return type(self)(join(kept, rows.delta), versions, {})

    def first(self, bits: int) -> Self:
        """The same version, with the first `bits` bits of each code; versions of one base share the copy."""
        differences = {number: Difference(one.gone, one.new.first(bits)) for number, one in self.differences.items()}
        return type(self)(self.base.first(bits), self.versions, differences)

    @cached_property
    def rows(self) -> Rows:
        """All rows, to be searched."""
        if not self.differences:
            return Rows(self.base, None, no_rows(self.base.codes.shape[1]))
        gone = np.concatenate([one.gone for one in self.differences.values()])
        alive = np.ones(len(self.base), np.bool_)
        alive[gone] = False
        return Rows(self.base, alive if len(gone) else None, join(*(one.new for one in self.differences.values())))


def _check_count(found: int, items: int) -> None:
    if found != items:
        raise sqlite3.DatabaseError(f"{items} items and {found} codes do not belong together")


def _differ(base: Part, block: Block) -> Difference:
    start, end = np.searchsorted(base.keys, ends_of(block.number))
    _, old, new = np.intersect1d(base.keys[start:end], block.keys, assume_unique=True, return_indices=True)
    same = (base.codes[start + old] == block.codes[new]).all(axis=1)
    fresh = np.ones(len(block.keys), np.bool_)
    fresh[new[same]] = False
    return Difference(np.delete(np.arange(start, end), old[same]), Part(block.codes, block.keys).take(fresh))
