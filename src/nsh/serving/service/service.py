"""What a running service holds, opened before it listens. Knows nothing of HTTP."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np

from nsh.serving.encoder import Encoder
from nsh.serving.service.batching import Batcher
from nsh.serving.service.images import ImageEncoder, resolve_inside, thumbnail
from nsh.serving.service.library import Library
from nsh.serving.service.logs import log
from nsh.serving.service.metrics import Metrics
from nsh.serving.service.settings import Settings

THUMBNAIL_PIXELS = 320
THUMBNAILS_KEPT = 1024  # some 10 kB each


class Service:
    """The encoder, the index, and the threads that work on them."""

    def __init__(self, settings: Settings) -> None:
        """Open everything and try the encoder once.

        Raises:
            CodesError: encoder or index cannot be opened, or do not belong together.
            ConfigError: the device is not to be had.
        """
        self.settings = settings
        self.metrics = Metrics()
        self.encoder = Encoder(settings.model, threads=1, device=settings.device)
        self.library = Library(settings.index, self.encoder, self.metrics)
        size = self.encoder.contract.image_size
        self.encoder.run(np.zeros((1, size, size, 3), np.uint8))  # the first run is slow: not a client's to wait for
        encode = ImageEncoder(self.encoder, max_pixels=settings.max_pixels, metrics=self.metrics)
        # one worker more than cores: a worker that waits for its outcome to be told leaves its core to another
        self.batcher = Batcher(encode, workers=settings.threads + 1, batch=settings.batch)
        self.searchers = ThreadPoolExecutor(settings.threads, thread_name_prefix="search")
        self.thumbnailers = ThreadPoolExecutor(settings.threads, thread_name_prefix="thumbnail")
        self.writers = ThreadPoolExecutor(1, thread_name_prefix="write")
        self._fault = ""  # why the index cannot be followed
        self._thumbnail = lru_cache(maxsize=THUMBNAILS_KEPT)(self._draw)

    @property
    def fault(self) -> str:
        """Why the service is not ready; "" if it is."""
        return self._fault or self.library.fault

    def picture(self, id: str) -> bytes | None:
        """The thumbnail of an item; None where there is no such item, or no such file under the root of images.

        Raises:
            UnreadableImage: the file cannot be decoded.
        """
        root = self.settings.images
        if root is None or self.library.find_code(id) is None:
            return None
        path = resolve_inside(root, id)
        if path is None:
            return None
        status = path.stat()
        return self._thumbnail(path, status.st_mtime_ns, status.st_size)

    def _draw(self, path: Path, changed: int, length: int) -> bytes:
        """Draw anew what has changed: the time and the length are the cache's to know."""
        return thumbnail(path, size=THUMBNAIL_PIXELS, max_pixels=self.settings.max_pixels)

    async def follow(self) -> None:
        """Keep to the newest version of the index, whoever writes it, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.settings.refresh)
            try:
                await loop.run_in_executor(self.writers, self.library.refresh)
            except Exception as error:  # what was opened is still searched; the next look may find it mended
                log("refresh failed", level=40, failure=error)
                self._fault = f"the index cannot be read again: {error}"
            else:
                self._fault = ""

    def close(self) -> None:
        """Wait for what is in work."""
        with suppress(Exception):
            self.batcher.close()
        for pool in (self.searchers, self.thumbnailers, self.writers):
            pool.shutdown()
