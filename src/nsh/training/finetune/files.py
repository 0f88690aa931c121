"""Training images as the data set has them: read by an id, decoded by threads. Knows neither data sets nor networks."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from PIL import Image

from nsh.core.errors import DataError, UnreadableImage
from nsh.training.finetune.order import Rows

Load = Callable[[str], Image.Image]
"""An id to its image, upright 8-bit RGB; called by several threads at once."""
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ImageFiles:
    """The training images, in the order of the data's rows.

    Attributes:
        ids: of all of them.
        digest: of the split that they are the training part of: other images have another one.
        load: gives the image of an id.
        size: S, pixels a side of what the network sees.
        resample: name of Pillow's filter.
        workers: threads that decode.
    """

    ids: Sequence[str]
    digest: str
    load: Load
    size: int
    resample: str
    workers: int

    def take(self, rows: Rows) -> Self:
        """The images in some of the rows alone, in the order of `rows`, int64 [m]."""
        return replace(self, ids=[self.ids[row] for row in rows])

    def read(self, row: int) -> Image.Image:
        """The image in a row.

        Raises:
            DataError: it cannot be read.
        """
        try:
            return self.load(self.ids[row])
        except UnreadableImage as error:
            raise DataError(
                f"image {self.ids[row]!r} was readable when the split was drawn and is not now ({error}): "
                "restore it, or draw the split again with `dvc repro -f split`"
            ) from error


def make_ahead(items: Iterable[S], make: Callable[[S], T], *, workers: int, ahead: int) -> Generator[T]:
    """Yield `make(item)` in the order of `items`, up to `ahead` of them made ahead by `workers` threads."""
    waiting: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for item in items:
            waiting.append(pool.submit(make, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
