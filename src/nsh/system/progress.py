"""The interface of progress bars, independent of how they are shown."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """A wrapper of iterables that is called like `tqdm.tqdm`, which is one."""

    def __call__(self, iterable: Iterable[T], *, desc: str = "", total: int | None = None) -> Iterable[T]:
        """Return `iterable`, showing progress as it is consumed."""
        ...


def no_progress(iterable: Iterable[T], *, desc: str = "", total: int | None = None) -> Iterable[T]:
    """The silent default."""
    return iterable
