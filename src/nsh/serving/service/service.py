"""The release that a running service answers from, and its thread pools. Knows nothing of HTTP."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from nsh.serving.deployment.folder import current_release
from nsh.serving.service.images import resolve_inside, thumbnail
from nsh.serving.service.logs import log
from nsh.serving.service.metrics import Metrics
from nsh.serving.service.release import OpenRelease, open_release
from nsh.serving.service.settings import Settings
from nsh.serving.service.shadow import ShadowRelease

THUMBNAIL_PIXELS = 320
THUMBNAILS_KEPT = 1024  # some 10 kB each


class Service:
    """What answers, and the thread pools.

    Attributes:
        release: what a request that begins now is answered from. A request takes it once: it may be replaced meanwhile.
        shadow: a release that is compared, or None.
    """

    def __init__(self, settings: Settings) -> None:
        """Open encoder and index, and run the encoder once.

        Raises:
            CodesError: encoder or index cannot be opened, or do not belong together.
            ConfigError: the device is not available, or the deployment has no release.
        """
        self.settings = settings
        self.metrics = Metrics()
        self.release = self._open()
        self.shadow = ShadowRelease(settings.shadow, settings, self.metrics) if settings.shadow else None
        self._following = threading.Lock()
        self.searchers = ThreadPoolExecutor(settings.threads, thread_name_prefix="search")
        self.thumbnailers = ThreadPoolExecutor(settings.threads, thread_name_prefix="thumbnail")
        self.writers = ThreadPoolExecutor(1, thread_name_prefix="write")
        self.followers = ThreadPoolExecutor(1, thread_name_prefix="follow")
        self._fault = ""  # why the index cannot be refreshed
        self._thumbnail = lru_cache(maxsize=THUMBNAILS_KEPT)(self._draw)

    @property
    def fault(self) -> str:
        """Why the service is not ready; "" if it is."""
        return self._fault or self.release.library.fault

    def find_file(self, id: str) -> Path | None:
        """The file of an item; None if there is no such item, or no such file below the root of images."""
        root = self.settings.images
        if root is None or self.release.library.find_code(id) is None:
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

    def move(self) -> bool:
        """Answer from the deployment's current release from now on; return whether that is another one than before.

        Requests in progress are answered from the release that they began with, which is closed after the last one.

        Raises:
            NshError: the current release cannot be opened; the former one still answers.
        """
        with self._following:
            if self.settings.deployment is None:
                return False
            if current_release(self.settings.deployment).index == self.release.library.address:
                return False
            former, self.release = self.release, self._open()
            self.metrics.registry.unregister(former.drift)
        log("release", encoder=self.release.encoder.identity[:12], items=len(self.release.library))
        return True

    def _open(self) -> OpenRelease:
        settings = self.settings
        model, index = settings.model, settings.index
        if settings.deployment is not None:
            current = current_release(settings.deployment)
            model, index = current.model, current.index
        return open_release(model, index, settings=settings, metrics=self.metrics)

    def _refresh(self) -> None:
        self.move()
        self.release.library.refresh()

    async def follow(self) -> None:
        """Follow the deployment and the index regularly, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.settings.refresh)
            try:
                await loop.run_in_executor(self.followers, self._refresh)
            except Exception as error:  # the opened version is still searched; a later refresh may succeed
                log("refresh failed", level=40, failure=error)
                self._fault = f"the index cannot be read again: {error}"
            else:
                self._fault = ""

    def close(self) -> None:
        """Wait for running work, and end the threads."""
        with suppress(Exception):
            self.release.batcher.close()
        if self.shadow is not None:
            self.shadow.close()
        for pool in (self.searchers, self.thumbnailers, self.writers, self.followers):
            pool.shutdown()
