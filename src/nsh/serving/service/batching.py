"""Images of concurrent requests share inferences: an idle worker takes all waiting images, up to a limit, as one batch.

No image waits for a fuller batch. A worker is a thread that decodes its batch and runs it on one core. Workers use the
cores better than threads inside one inference, because one decodes while another infers. Knows nothing of HTTP.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from nsh.errors import UnreadableImage
from nsh.serving.encoder import Outputs

Outcome = Outputs | UnreadableImage
Job = tuple[bytes, "asyncio.Future[Outcome]"]
Encode = Callable[[Sequence[bytes]], list[Outcome]]


class Batcher:
    """Takes images one by one and encodes them in batches. Belongs to one event loop.

    Its queue is bounded by the limit on requests in progress times the limit on images in a request.
    """

    def __init__(self, encode: Encode, *, workers: int, batch: int) -> None:
        """Encode at most `batch` images at a time in each of `workers` threads."""
        self._encode = encode
        self._batch = batch
        self._idle = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="encode")
        self._waiting: deque[Job] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def encode(self, images: Sequence[bytes]) -> list[Outcome]:
        """The encoder's outputs or the error of each image file, in order."""
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in images]
        self._waiting.extend(zip(images, futures, strict=True))
        self._start()
        try:
            return [await future for future in futures]
        finally:  # workers skip the images of a cancelled request
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """Wait for the running batches."""
        self._pool.shutdown()

    def _start(self) -> None:
        while self._idle and (jobs := self._take()):
            self._idle -= 1
            task = asyncio.create_task(self._run(jobs))
            self._running.add(task)  # the event loop holds only weak references to tasks
            task.add_done_callback(self._running.discard)

    def _take(self) -> list[Job]:
        jobs: list[Job] = []
        while self._waiting and len(jobs) < self._batch:
            job = self._waiting.popleft()
            if not job[1].done():
                jobs.append(job)
        return jobs

    async def _run(self, jobs: list[Job]) -> None:
        loop = asyncio.get_running_loop()
        try:
            outcomes = await loop.run_in_executor(self._pool, self._encode, [image for image, _ in jobs])
            for (_, future), outcome in zip(jobs, outcomes, strict=True):
                if not future.done():
                    future.set_result(outcome)
        except Exception as error:  # every request of this batch reports it
            for _, future in jobs:
                if not future.done():
                    future.set_exception(error)
        finally:
            self._idle += 1
            self._start()
