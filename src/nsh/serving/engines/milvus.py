"""An index in a Milvus collection, which many machines may hold, with the answers of `nsh.serving.index.Index`.

Distances are exact (BIN_FLAT), and hits are in the order of (distance, order of insertion). Milvus orders equal ones as
it likes: those at the k-th distance are asked for in a second search, and the first of them are taken.

Milvus differs from one SQLite file in this:
- It has no versions. A search looks up the ids of its hits in a second call, and leaves out what was removed since.
- It has no transactions. Two processes that add the same new id at once make two items of it, and an addition of more
  than `STEP` items that fails may be there in part. Let one process write.
- A search finds `MOST` items at most, and compares whole codes, never the first bits alone.
- A metadata column stays listed when its last item has gone.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import check_codes
from nsh.core.names import listed
from nsh.core.reranking import rerank, shortlist_length
from nsh.errors import CodesError, IndexUnusable, UnknownItem
from nsh.serving.engines.milvus_address import Address
from nsh.serving.engines.milvus_collection import LARGEST, STEP, Collection
from nsh.serving.engines.milvus_rows import LAST, cell, read_cells, row, spell
from nsh.serving.index.checks import storable, whole
from nsh.serving.index.engine import Filter, Hit, Reader, ScoredHit, check_addition, codes_of_logits, filtered_column

T = TypeVar("T")

MOST = LARGEST // 2
"""Items of one answer, at most: half of what Milvus gives at once, so that searches among equal distances end."""

_Found = list[tuple[int, int]]  # (distance, key), ascending


class _Item(NamedTuple):
    id: str
    code: NDArray[np.uint8]
    metadata: dict[str, str]


class MilvusIndex:
    """An opened collection. Any number of threads may search it. Methods are those of `nsh.serving.index.Index`.

    Attributes:
        address: of the collection.
    """

    def __init__(self, address: Address, *, readonly: bool = False) -> None:
        """Open a collection.

        Raises:
            IndexMissing: there is none.
            IndexUnusable: it is not one of ours, or Milvus does not answer.
        """
        self.address, self._readonly, self._newest = address, readonly, 0
        self._collection = Collection.open(address)
        self.refresh()

    @property
    def bits(self) -> int:
        """Bits of every code."""
        return self._collection.settings.bits

    @property
    def encoder_identity(self) -> str:
        """Identity of the encoder whose codes the collection holds."""
        return self._collection.settings.encoder_identity

    @property
    def version(self) -> None:
        """None: Milvus has no versions."""
        return

    @property
    def columns(self) -> list[str]:
        """Names of the metadata columns, as of the last `refresh`."""
        return list(self._columns)

    def __len__(self) -> int:
        return self._items

    def refresh(self) -> None:
        """Count the items, and learn of new columns.

        Raises:
            IndexUnusable: Milvus does not answer, or another encoder's collection has taken the place of this one.
        """
        if self._collection.read_settings() != self._collection.settings:
            raise IndexUnusable(f"{self.address.url} holds codes of another encoder now: start again with that encoder")
        self._items, self._columns = self._collection.count(), self._collection.columns()

    def read(self, ask: Callable[[Reader], T]) -> T:
        """Call `ask` with this collection."""
        return ask(self)

    def search(
        self, codes: NDArray[np.uint8], *, k: int, where: Filter | None = None, bits: int | None = None
    ) -> list[list[Hit]]:
        """The k nearest items of each code, uint8 [q, ceil(bits / 8)], by (distance, order of insertion)."""
        self._check_whole(bits)
        check_codes(codes, bits=self.bits)
        return self._hits(self._find(codes, limit=_most("k", k), radius=None, where=where))

    def search_radius(
        self,
        codes: NDArray[np.uint8],
        *,
        radius: int,
        where: Filter | None = None,
        limit: int | None = None,
        bits: int | None = None,
    ) -> list[list[Hit]]:
        """All items at a distance <= `radius` of each code, or the nearest `limit` of them, at most `MOST`.

        Raises:
            CodesError: there are `MOST` or more, and no limit was given.
        """
        self._check_whole(bits)
        check_codes(codes, bits=self.bits)
        found = self._within(codes, radius=radius, where=where, limit=limit)
        return self._hits(found)

    def search_reranked(
        self,
        logits: NDArray[np.floating[Any]],
        *,
        k: int,
        radius: int | None = None,
        where: Filter | None = None,
        bits: int | None = None,
    ) -> list[list[ScoredHit]]:
        """The k best items for each query by its logits, float [q, bits]; k <= `MOST`."""
        self._check_whole(bits)
        k, codes = whole("k", k, least=1), codes_of_logits(logits, bits=self.bits)
        if radius is None:
            found = self._find(codes, limit=_most("k", shortlist_length(k)), radius=None, where=where)
        else:
            found = self._within(codes, radius=radius, where=where, limit=shortlist_length(k) if k <= MOST else None)
        items = self._fetch(found)
        return [
            _best(query, [(d, items[key]) for d, key in one if key in items], k=k)
            for query, one in zip(logits, found, strict=True)
        ]

    def code_of(self, id: str) -> NDArray[np.uint8]:
        """The code of an item, uint8 [ceil(bits / 8)].

        Raises:
            UnknownItem: there is no such item.
        """
        rows = self._collection.fetch(f'id == "{spell(id)}"', ["code"]) if storable([id]) else []
        if not rows:
            raise UnknownItem(f"the index has no item {id!r}: look at its ids, they are those of `nsh encode`")
        return _code(rows[0])

    def add(
        self,
        ids: Sequence[str],
        codes: NDArray[np.uint8],
        *,
        metadata: Sequence[Mapping[str, str]] | None = None,
        encoder_identity: str,
    ) -> int:
        """Add items; return how many of the ids are new. An existing id keeps its place in the order.

        Raises:
            CodesError: as `nsh.serving.index.Index.add`.
        """
        self._check_writable()
        check_addition(self, ids, codes, metadata=metadata, encoder_identity=encoder_identity)
        known = self._keys(ids)
        cells = metadata if metadata is not None else self._metadata(ids, known)
        rows = [
            row(known.get(id, key), id, code=code, metadata=one)
            for id, key, code, one in zip(ids, self._next_keys(len(ids)), codes, cells, strict=True)
        ]
        if new := sorted({name for one in cells for name in one} - set(self._columns)):
            self._collection.add_columns(new)
        for part in _steps(rows):
            self._collection.upsert(part)
        self.refresh()
        return len(ids) - len(known)

    def remove(self, ids: Sequence[str]) -> int:
        """Remove items; return how many.

        Raises:
            UnknownItem: an id is missing; then no item is removed.
        """
        self._check_writable()
        unique = list(dict.fromkeys(ids))
        known = self._keys(unique)
        unknown = [id for id in unique if id not in known]
        if unknown:
            raise UnknownItem(f"the index has no item {listed(unknown)}: nothing was removed")
        for part in _steps(list(known.values())):
            self._collection.delete(part)
        self.refresh()
        return len(unique)

    def _check_whole(self, bits: int | None) -> None:
        if bits not in (None, self.bits):
            raise CodesError(
                f"found {bits} bits, Milvus compares whole codes, here of {self.bits} bits: "
                f"`nsh index build --bits {bits}`, then `nsh index export`, make a collection of shorter ones"
            )

    def _within(
        self, codes: NDArray[np.uint8], *, radius: int, where: Filter | None, limit: int | None
    ) -> list[_Found]:
        most, radius = MOST if limit is None else _most("limit", limit), whole("radius", radius, least=0)
        found = self._find(codes, limit=most, radius=radius, where=where)
        if limit is None and any(len(one) == MOST for one in found):
            raise CodesError(f"{MOST} items or more are within {radius} bits: give a smaller radius, or a limit")
        return found

    def _find(self, codes: NDArray[np.uint8], *, limit: int, radius: int | None, where: Filter | None) -> list[_Found]:
        condition, found = self._condition(where), list[_Found]()
        together = max(1, LARGEST // (limit + 1))
        for part in _steps([code.tobytes() for code in codes], together):
            answers = self._collection.search(part, limit=limit + 1, where=condition)
            for code, pairs in zip(part, answers, strict=True):
                inside = sorted(pair for pair in pairs if radius is None or pair[0] <= radius)
                found.append(self._settle(code, inside, limit=limit, condition=condition))
        return found

    def _settle(self, code: bytes, pairs: _Found, *, limit: int, condition: str) -> _Found:
        """The first `limit` of limit + 1 pairs; if the last two are equally near, the first of all that are so."""
        if len(pairs) <= limit or pairs[limit - 1][0] < pairs[limit][0]:
            return pairs[:limit]
        last = pairs[limit][0]
        nearer = [pair for pair in pairs if pair[0] < last]
        wanted, keys, bound = limit - len(nearer), set[int](), ""
        while True:
            asked = " and ".join(part for part in (condition, bound) if part)
            ((*tied,),) = self._collection.search([code], limit=LARGEST, where=asked, exactly=last)
            keys |= {key for _, key in tied}
            first = sorted(keys)[:wanted]
            if len(tied) < LARGEST:
                return nearer + [(last, key) for key in first]
            bound = f"key < {first[-1]}"  # what Milvus has left out can only matter below

    def _condition(self, where: Filter | None) -> str:
        where = where or Filter()
        conditions = []
        if pair := filtered_column(where, self._columns):
            conditions.append(f'array_contains(metadata, "{cell(*pair)}")')
        if where.id_prefix:
            prefix = spell(where.id_prefix)
            conditions.append(f'id >= "{prefix}" and id < "{prefix}{LAST}"')
        return " and ".join(conditions)

    def _fetch(self, found: Sequence[_Found]) -> dict[int, _Item]:
        keys = list({key for one in found for _, key in one})
        rows = (
            one for part in _steps(keys) for one in self._collection.fetch(f"key in {part}", ["id", "code", "metadata"])
        )
        return {int(one["key"]): _Item(unquote(one["id"]), _code(one), read_cells(one["metadata"])) for one in rows}

    def _hits(self, found: Sequence[_Found]) -> list[list[Hit]]:
        items = self._fetch(found)
        return [[Hit(items[key].id, d, dict(items[key].metadata)) for d, key in one if key in items] for one in found]

    def _keys(self, ids: Sequence[str]) -> dict[str, int]:
        """The keys of the ids that are there."""
        parts = _steps([f'"{spell(id)}"' for id in ids if storable([id])])
        rows = (one for part in parts for one in self._collection.fetch(f"id in [{', '.join(part)}]", ["id"]))
        return {unquote(one["id"]): int(one["key"]) for one in rows}

    def _metadata(self, ids: Sequence[str], known: Mapping[str, int]) -> list[dict[str, str]]:
        """The metadata that items have now."""
        items = self._fetch([[(0, key) for key in known.values()]])
        return [items[known[id]].metadata if id in known and known[id] in items else {} for id in ids]

    def _next_keys(self, count: int) -> range:
        """Keys above all others: the time in nanoseconds, so that writers need no common counter."""
        start = max(time.time_ns(), self._newest + 1)
        self._newest = start + count
        return range(start, start + count)

    def _check_writable(self) -> None:
        if self._readonly:
            raise CodesError(
                f"{self.address.url} was opened for reading only: open it with readonly=False to change it"
            )


def _best(logits: NDArray[np.floating[Any]], shortlist: Sequence[tuple[int, _Item]], *, k: int) -> list[ScoredHit]:
    if not shortlist:
        return []
    places, scores = rerank(logits, np.stack([item.code for _, item in shortlist]))
    chosen = [(*shortlist[place], score) for place, score in zip(places[:k].tolist(), scores[:k].tolist(), strict=True)]
    return [ScoredHit(item.id, distance, score, dict(item.metadata)) for distance, item, score in chosen]


def _most(name: str, value: int) -> int:
    """The value, if it is a whole number that Milvus can answer.

    Raises:
        CodesError: it is not.
    """
    if whole(name, value, least=1) > MOST:
        raise CodesError(f"found {name} = {value}: a search in Milvus finds 1 to {MOST} items")
    return value


def _code(row: Mapping[str, Any]) -> NDArray[np.uint8]:
    (content,) = row["code"]
    return np.frombuffer(content, np.uint8)


def _steps(values: Sequence[T], size: int = STEP) -> Iterator[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))
