"""The encoder, the index and the thread pools of a running service. Knows nothing of HTTP."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np

from nsh.serving.encoder import Encoder
from nsh.serving.service.batching import Batcher
from nsh.serving.service.drift import DriftMonitor
from nsh.serving.service.images import ImageEncoder, resolve_inside, thumbnail
from nsh.serving.service.library import Library
from nsh.serving.service.logs import log
from nsh.serving.service.metrics import Metrics
from nsh.serving.service.settings import Settings

THUMBNAIL_PIXELS = 320
THUMBNAILS_KEPT = 1024  # some 10 kB each


class Service:
    """The encoder, the index, and their thread pools."""

    def __init__(self, settings: Settings) -> None:
        """Open encoder and index, and run the encoder once.

        Raises:
            CodesError: encoder or index cannot be opened, or do not belong together.
            ConfigError: the device is not available.
        """
        self.settings = settings
        self.metrics = Metrics()
        self.encoder = Encoder(settings.model, threads=1, device=settings.device, max_pixels=settings.max_pixels)
        self.library = Library(settings.index, self.encoder, self.metrics)
        self.drift = DriftMonitor(self.encoder.reference, self.metrics)
        size = self.encoder.contract.image_size
        self.encoder.run(np.zeros((1, size, size, 3), np.uint8))  # the first run is slow, so no client waits for it
        encode = ImageEncoder(self.encoder, bits=self.library.bits, metrics=self.metrics)
        # one worker more than cores: another one uses the core while a worker waits for its results to be passed on
        self.batcher = Batcher(encode, workers=settings.threads + 1, batch=settings.batch)
        self.searchers = ThreadPoolExecutor(settings.threads, thread_name_prefix="search")
        self.thumbnailers = ThreadPoolExecutor(settings.threads, thread_name_prefix="thumbnail")
        self.writers = ThreadPoolExecutor(1, thread_name_prefix="write")
        self._fault = ""  # why the index cannot be refreshed
        self._thumbnail = lru_cache(maxsize=THUMBNAILS_KEPT)(self._draw)

    @property
    def fault(self) -> str:
        """Why the service is not ready; "" if it is."""
        return self._fault or self.library.fault

    def find_file(self, id: str) -> Path | None:
        """The file of an item; None if there is no such item, or no such file below the root of images."""
        root = self.settings.images
        if root is None or self.library.find_code(id) is None:
            return None
        return resolve_inside(root, id)

    def thumbnail(self, id: str) -> bytes | None:
        """The thumbnail of an item; None if it has no file.

        Raises:
            UnreadableImage: the file cannot be decoded.
        """
        path = self.find_file(id)
        if path is None:
            return None
        status = path.stat()
        return self._thumbnail(path, status.st_mtime_ns, status.st_size)

    def _draw(self, path: Path, changed: int, length: int) -> bytes:
        """Make a thumbnail; `changed` and `length` are in the cache's key, so that a changed file has a new one."""
        return thumbnail(path, size=THUMBNAIL_PIXELS, max_pixels=self.settings.max_pixels)

    async def follow(self) -> None:
        """Refresh the index regularly, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.settings.refresh)
            try:
                await loop.run_in_executor(self.writers, self.library.refresh)
            except Exception as error:  # the opened version is still searched; a later refresh may succeed
                log("refresh failed", level=40, failure=error)
                self._fault = f"the index cannot be read again: {error}"
            else:
                self._fault = ""

    def close(self) -> None:
        """Wait for running work, and end the threads."""
        with suppress(Exception):
            self.batcher.close()
        for pool in (self.searchers, self.thumbnailers, self.writers):
            pool.shutdown()
