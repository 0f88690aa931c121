"""Codes of files by their content: an image that already has a code in the folder is hashed and not decoded again.

Hashing takes a small share of the time of decoding and encoding. It is reliable where a changed file has the old time
and size. Does not know how shards are written.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from nsh.core.former_codes import FormerCodes, Known
from nsh.core.manifest import Entry
from nsh.core.preprocess import ImageSource
from nsh.errors import UnreadableImage
from nsh.serving.encoder import Encoder
from nsh.serving.sources import Source
from nsh.system.files import sha256_bytes

State = Literal["kept", "new", "changed"]
STATES: tuple[State, ...] = get_args(State)

Result = NDArray[np.uint8] | UnreadableImage
"""The code of an image, or why it has none."""


class Shard(NamedTuple):
    """A shard of a folder of codes: its number, the row of its first image, and the ids of its images, in order."""

    number: int
    first: int
    ids: list[str]


class EncodedImage(NamedTuple):
    """The result of one image."""

    entry: Entry
    code: NDArray[np.uint8] | None  # None: the entry has the error
    state: State


class Batch(NamedTuple):
    """Images that run through the graph together, the row of the first one, and their known codes."""

    ids: list[str]
    first: int
    known: Known


def cut_batches(former: FormerCodes, shards: Iterable[Shard], *, length: int) -> Iterator[Batch]:
    """Cut the images of the shards, in order, into batches of at most `length`."""
    for number, first, ids in shards:
        known = former.around(number, min(ids), max(ids))
        for start in range(0, len(ids), length):
            yield Batch(ids[start : start + length], first + start, known)


def encode_batch(encoder: Encoder, source: Source, batch: Batch) -> list[EncodedImage]:
    """Encode the images without a known code. A file is read once: its digest and its code are of the same bytes."""
    digests, settled = list[str | None](), list[Result | None]()

    def read_unknown() -> Iterator[ImageSource]:
        for content in source.read(batch.ids, first=batch.first):
            digest = sha256_bytes(content) if isinstance(content, bytes) else None
            known = batch.known.codes.get(digest) if digest is not None else None
            digests.append(digest)
            settled.append(content if isinstance(content, UnreadableImage) else known)
            if settled[-1] is None and not isinstance(content, UnreadableImage):
                yield content

    fresh = iter(encoder.encode_batch(read_unknown()))
    results = [next(fresh) if result is None else result for result in settled]
    return [
        _describe(batch.known, result, Entry(id=name, path=name, sha256=digest))
        for name, digest, result in zip(batch.ids, digests, results, strict=True)
    ]


def _describe(known: Known, result: Result, entry: Entry) -> EncodedImage:
    code = None if isinstance(result, UnreadableImage) else result
    if code is None:
        entry = replace(entry, status="error", error=str(result))
    former = known.entries.get(entry.id)
    return EncodedImage(entry, code, "new" if former is None else "kept" if former == entry else "changed")
