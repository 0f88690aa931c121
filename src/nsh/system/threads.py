"""Runs work in threads and returns results in order, with bounded memory. Knows nothing of the work."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item], *, ahead: int
) -> Generator[Result]:
    """Call `function` on the items in the pool and yield the results in the items' order.

    Items are taken as they are needed, by the caller's own thread, and at most `ahead` (>= 1) are in work or waiting
    to be yielded: memory is bounded however slow the consumer is. What has not begun when the iterator is closed, or
    when a call fails, is not begun any more; a failure is raised in its turn.
    """
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def map_in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int, ahead: int | None = None
) -> Generator[Result]:
    """`map_ordered` with as many threads of its own, which end with the iterator; by default `ahead` is 4 for each."""
    with ThreadPoolExecutor(threads) as pool:
        yield from map_ordered(pool, function, items, ahead=ahead or 4 * threads)
