"""Encodes items of an index again, from their images. Knows no release and writes no index."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.core.former_codes import Known
from nsh.core.manifest import read_codes
from nsh.errors import DataError
from nsh.serving.bulk import Summary
from nsh.serving.by_content import Batch, encode_batch
from nsh.serving.encoder import Encoder
from nsh.serving.shards import AHEAD
from nsh.serving.sources import Content, Images, Source
from nsh.serving.sources.members import check_name
from nsh.system.progress import Progress, no_progress
from nsh.system.threads import map_ordered

EncodeImages = Callable[..., Summary]
"""`nsh.serving.bulk.encode_files`, or the same on a Ray cluster."""

NO_IMAGE = "there is no such image"


class Encoded(NamedTuple):
    """Items: the code of each that has one, uint8 [ceil(bits / 8)], and for the others why not."""

    codes: dict[str, NDArray[np.uint8]]
    faults: dict[str, str]


@dataclass(frozen=True)
class Rows:
    """Some rows of a source."""

    source: Source
    rows: NDArray[np.int64]  # ascending

    def read(self, ids: Sequence[str], *, first: int) -> Iterator[Content]:
        """As `Source.read`; rows that follow each other are read together."""
        rows = self.rows[first : first + len(ids)]
        cuts = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(ids)]
        for start, end in pairwise(cuts):
            if start < end:
                yield from self.source.read(ids[start:end], first=int(rows[start]))


@dataclass(frozen=True)
class ChosenImages:
    """Those of some images whose ids are wanted, in their order."""

    images: Images
    wanted: frozenset[str]

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        return np.array([row for row, name in enumerate(self.images.ids) if name in self.wanted], np.int64)

    @cached_property
    def ids(self) -> list[str]:
        """The ids."""
        return [self.images.ids[row] for row in self._rows.tolist()]

    @property
    def left_out(self) -> Counter[str]:
        """How many files were left out, by reason."""
        return self.images.left_out

    @property
    def source(self) -> Rows:
        """Reads the images."""
        return Rows(self.images.source, self._rows)

    def any_below(self, folder: Path) -> bool:
        """Whether one of the images is in `folder` or below it."""
        return self.images.any_below(folder)


class ItemEncoder:
    """Encodes items with one encoder."""

    def __init__(self, encoder: Encoder, images: Images, *, encode_images: EncodeImages) -> None:
        self.encoder, self._images, self._encode_images = encoder, images, encode_images
        self._row = {name: row for row, name in enumerate(images.ids)}

    @property
    def ids(self) -> list[str]:
        """The ids of all images that were found."""
        return self._images.ids

    def encode_all(
        self, ids: Iterable[str], out: Path, *, progress: Progress = no_progress
    ) -> Callable[[list[str]], Encoded]:
        """Encode many items into the folder of codes `out`, which keeps them; an interrupted run continues.

        Returns:
            A function that gives the codes of some of the ids, or why they have none.

        Raises:
            DataError: no item has an image.
        """
        chosen = ChosenImages(self._images, frozenset(ids))
        if not chosen.ids:
            raise DataError("found none of the items among the images: name the folder that their ids are relative to")
        self._encode_images(self.encoder, chosen, out=out, progress=progress)
        made = read_codes(out)
        codes = dict(zip(made.ids, made.codes, strict=True))
        errors = {entry.id: entry.error or "" for entry in made.errors}

        def look_up(wanted: list[str]) -> Encoded:
            unknown = self([name for name in wanted if name not in codes and name not in errors])
            found = {name: codes[name] for name in wanted if name in codes} | unknown.codes
            return Encoded(found, {name: errors[name] for name in wanted if name in errors} | unknown.faults)

        return look_up

    def __call__(self, ids: list[str]) -> Encoded:
        """Encode a few items, whose images may have come after the others were listed."""
        threads = self.encoder.threads
        with ThreadPoolExecutor(threads) as pool:
            made = list(map_ordered(pool, self._encode_one, ids, ahead=AHEAD * threads))
        both = list(zip(ids, made, strict=True))
        codes = {name: result for name, result in both if not isinstance(result, str)}
        return Encoded(codes, {name: result for name, result in both if isinstance(result, str)})

    def _encode_one(self, name: str) -> NDArray[np.uint8] | str:
        """The code of an item, or why it has none."""
        if name not in self._row and check_name(name):  # a client chose it
            return NO_IMAGE
        (made,) = encode_batch(self.encoder, self._images.source, Batch([name], self._row.get(name, 0), Known()))
        return made.entry.error or NO_IMAGE if made.code is None else made.code
