"""What the service and the commands need of an engine that stores and searches codes, and what searches return.

`nsh.serving.index.Index`, one SQLite file, is the engine of one machine. Others are in `nsh.serving.engines`, and one
contract test holds all of them to the same answers. Knows no engine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import binarize, check_codes, check_length, pack
from nsh.core.contract import EncoderContract
from nsh.errors import CodesError
from nsh.serving.index.checks import check_filter, check_ids, check_metadata

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Restricts a search to items whose id begins with `id_prefix`, and whose metadata `column` has the `value`."""

    id_prefix: str | None = None
    column: str | None = None
    value: str | None = None


class Hit(NamedTuple):
    """One item found: its id, its distance in bits, and the values of its metadata columns."""

    id: str
    distance: int  # bits
    metadata: dict[str, str]


class ScoredHit(NamedTuple):
    """A hit of a re-ranked search, with its score: the higher, the nearer (`nsh.core.reranking`)."""

    id: str
    distance: int  # bits
    score: float  # in the unit of the query's logits
    metadata: dict[str, str]


class Reader(Protocol):
    """Searches, in one version where the engine has versions. `nsh.serving.index.Index` describes them."""

    @property
    def bits(self) -> int:
        """Bits of every code."""
        ...

    @property
    def version(self) -> int | None:
        """Number of the version that is searched; None: the engine has none, and always searches the newest."""
        ...

    def __len__(self) -> int: ...

    def search(
        self, codes: NDArray[np.uint8], *, k: int, where: Filter | None = None, bits: int | None = None
    ) -> list[list[Hit]]:
        """The k nearest items of each code, by (distance, order of insertion)."""
        ...

    def search_radius(
        self,
        codes: NDArray[np.uint8],
        *,
        radius: int,
        where: Filter | None = None,
        limit: int | None = None,
        bits: int | None = None,
    ) -> list[list[Hit]]:
        """All items within a radius of each code, or the nearest `limit` of them."""
        ...

    def search_reranked(
        self,
        logits: NDArray[np.floating[Any]],
        *,
        k: int,
        radius: int | None = None,
        where: Filter | None = None,
        bits: int | None = None,
    ) -> list[list[ScoredHit]]:
        """The k best items for each query by its logits."""
        ...

    def code_of(self, id: str) -> NDArray[np.uint8]:
        """The code of an item."""
        ...


class Engine(Reader, Protocol):
    """An opened store of codes of one encoder."""

    @property
    def encoder_identity(self) -> str:
        """Identity of the encoder whose codes it holds."""
        ...

    @property
    def columns(self) -> list[str]:
        """Names of the metadata columns."""
        ...

    def read(self, ask: Callable[[Reader], T]) -> T:
        """Call `ask` with what is there now; with one version of it where the engine has versions."""
        ...

    def add(
        self,
        ids: Sequence[str],
        codes: NDArray[np.uint8],
        *,
        metadata: Sequence[Mapping[str, str]] | None = None,
        encoder_identity: str,
    ) -> int:
        """Add or replace items; return how many of the ids are new."""
        ...

    def remove(self, ids: Sequence[str]) -> int:
        """Remove items, all of them or none; return how many."""
        ...

    def refresh(self) -> None:
        """Learn of what others have changed."""
        ...


def check_encoder(engine: Engine, identity: str) -> None:
    """Make sure that an engine holds codes of the encoder with this identity.

    Raises:
        CodesError: it holds another encoder's.
    """
    if identity != engine.encoder_identity:
        raise CodesError(
            f"the index holds codes of the encoder {engine.encoder_identity[:12]}, found the encoder {identity[:12]}: "
            "use the index's own, or build another index"
        )


def searchable_lengths(engine: Engine, contract: EncoderContract) -> list[int]:
    """Bits by which an encoder can search an engine, ascending: of its nested codes, and last of the codes held.

    Raises:
        CodesError: it holds codes of another encoder, or cut to a length that this encoder's codes cannot have.
    """
    check_encoder(engine, contract.identity)
    check_length(engine.bits, contract.lengths)
    return [length for length in contract.lengths if length <= engine.bits]


def check_addition(
    engine: Engine,
    ids: Sequence[str],
    codes: NDArray[np.uint8],
    *,
    metadata: Sequence[Mapping[str, str]] | None,
    encoder_identity: str,
) -> None:
    """Make sure that an engine can add these items; the arguments are those of `Engine.add`.

    Raises:
        CodesError: the codes are of another encoder or length, or an id or metadata are not valid.
    """
    check_encoder(engine, encoder_identity)
    check_codes(codes, bits=engine.bits)
    check_ids(ids)
    for name, values in (("codes", codes), ("metadata", metadata)):
        if values is not None and len(values) != len(ids):
            raise CodesError(f"found {len(ids)} ids and {len(values)} {name}: give one for each id")
    check_metadata(metadata or ())


def codes_of_logits(logits: NDArray[np.floating[Any]], *, bits: int) -> NDArray[np.uint8]:
    """The codes of queries by their logits, float [q, bits].

    Raises:
        CodesError: the logits are not finite, or of another length.
    """
    codes = pack(binarize(logits))
    if logits.shape[1] != bits:
        raise CodesError(f"found {logits.shape[1]} logits a query, the codes have {bits} bits: use one encoder")
    return codes


def filtered_column(where: Filter, known: Sequence[str]) -> tuple[str, str] | None:
    """The column and the value of a filter by metadata; None if it has none.

    Args:
        where: the filter.
        known: the columns that items have.

    Raises:
        CodesError: a column without a value or the reverse, no item has the column, or a text is not valid.
    """
    check_filter([text for text in (where.id_prefix, where.column, where.value) if text is not None])
    if where.column is None and where.value is None:
        return None
    if where.column is None or where.value is None:
        raise CodesError("a filter by metadata needs a column and a value: give both")
    if where.column not in known:
        there = f"there are {', '.join(known)}" if known else "no item has metadata"
        raise CodesError(f"no item has the metadata column {where.column!r}: {there}")
    return where.column, where.value
