"""A second release that answers nobody: for a share of the searches, its hits are compared with those of the answer.

It works in one thread, after the answer and with a lower priority. If searches come faster than it compares, it leaves
some out and counts them. Its failures are counted and reach no client. Knows nothing of HTTP.
"""

import os
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, NamedTuple

import numpy as np
from prometheus_client import Counter, Histogram

from nsh.errors import UnreadableImage
from nsh.serving.encoder import Encoder
from nsh.serving.index import Filter
from nsh.serving.service.library import Library
from nsh.serving.service.logs import log
from nsh.serving.service.metrics import SECONDS, Metrics
from nsh.serving.service.settings import Settings, Shadow

WAITING = 32
"""Searches that may wait; with images of 16 MiB at most, the memory that they hold is bounded."""

_KEPT = 1000  # last searches whose times the report describes
_LOWEST = 10  # searches that the report names
_OUTCOMES = ("compared", "failed", "dropped")  # of a search that belongs to the share
_SHARES = tuple(tenth / 10 for tenth in range(11))


class Searched(NamedTuple):
    """A search that was answered."""

    query: bytes | str  # the content of an image, or an item's id
    where: Filter | None
    reranked: bool
    hits: list[str]  # ids of the answer
    encoder_identity: str  # that answered
    request_id: str


@dataclass
class _Figures:
    """What was found beside one answering encoder."""

    encoder_identity: str = ""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_OUTCOMES, 0))
    overlap: float = 0.0  # sum
    same_first: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    lowest: list[tuple[float, str]] = field(default_factory=list)


class ShadowRelease:
    """The compared release, and what was found."""

    def __init__(self, shadow: Shadow, settings: Settings, metrics: Metrics) -> None:
        """Open it.

        Raises:
            CodesError: encoder or index cannot be opened, or do not belong together.
        """
        self._encoder = Encoder(shadow.model, threads=1, device=settings.device, max_pixels=settings.max_pixels)
        self._library = Library(shadow.index, self._encoder, Metrics())  # the service's gauges are of what answers
        self._share, self._due, self._waiting = shadow.share, 0.0, 0
        self._figures, self._lock = _Figures(), threading.RLock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="shadow", initializer=_yield_cores)
        registry = metrics.registry
        self._requests = Counter("nsh_shadow_requests", "Searches of the share", ["outcome"], registry=registry)
        for outcome in _OUTCOMES:  # at 0, so that an alarm's rate has a first value
            self._requests.labels(outcome)
        self._overlap = Histogram(
            "nsh_shadow_overlap", "Share of an answer's hits that it finds", buckets=_SHARES, registry=registry
        )
        self._seconds = Histogram(
            "nsh_shadow_seconds", "Its decoding, inference and search", buckets=SECONDS, registry=registry
        )

    def offer(self, searched: Searched) -> None:
        """Compare a search later, if it belongs to the share; returns at once."""
        if not searched.hits:
            return
        with self._lock:
            self._due += self._share
            if self._due < 1:
                return
            self._due -= 1
            dropped = self._waiting >= WAITING
            self._waiting += not dropped
        if dropped:
            self._count("dropped", searched)
        else:
            self._pool.submit(self._work, searched)

    def report(self) -> dict[str, Any]:
        """What was found since the present encoder answers; means and quantiles are None before the first search."""
        with self._lock:
            figures, compared = self._figures, self._figures.counts["compared"]
            times = np.array(figures.seconds)
            return {
                "encoder_identity": figures.encoder_identity,
                "shadow_identity": self._encoder.identity,
                "shadow_items": len(self._library),
                "share": self._share,
                **figures.counts,
                "overlap": figures.overlap / compared if compared else None,
                "same_first_hit": figures.same_first / compared if compared else None,
                "seconds_median": float(np.median(times)) if compared else None,
                "seconds_95_percent": float(np.quantile(times, 0.95)) if compared else None,
                "lowest": [{"overlap": share, "request_id": name} for share, name in figures.lowest],
            }

    def close(self) -> None:
        """End the thread; searches that wait are not compared."""
        self._pool.shutdown(cancel_futures=True)

    def _work(self, searched: Searched) -> None:
        start = time.perf_counter()
        try:
            hits = self._search(searched)
        except Exception as error:  # whatever it is, clients have their answers
            log("shadow failed", level=30, reason=str(error), request_id=searched.request_id)
            self._count("failed", searched)
        else:
            self._note(searched, hits, time.perf_counter() - start)
        finally:
            with self._lock:
                self._waiting -= 1

    def _search(self, searched: Searched) -> list[str]:
        """The ids of as many nearest items as the answer has."""
        query, k = searched.query, len(searched.hits)
        if isinstance(query, str):
            return [hit.id for hit in self._library.search(query, k=k, where=searched.where).hits]
        (outputs,) = self._encoder.run_batch([query])
        if isinstance(outputs, UnreadableImage):
            raise outputs
        outputs = outputs.first(self._library.bits)
        if searched.reranked:
            return [hit.id for hit in self._library.search_reranked(outputs.logit, k=k, where=searched.where).hits]
        return [hit.id for hit in self._library.search(outputs.code, k=k, where=searched.where).hits]

    def _note(self, searched: Searched, hits: list[str], seconds: float) -> None:
        overlap = len(set(hits) & set(searched.hits)) / len(searched.hits)
        self._overlap.observe(overlap)
        self._seconds.observe(seconds)
        with self._lock:  # once: a report has all of a search, or nothing of it
            figures = self._count("compared", searched)
            figures.overlap += overlap
            figures.same_first += hits[:1] == searched.hits[:1]
            figures.seconds.append(seconds)
            figures.lowest = nsmallest(_LOWEST, [*figures.lowest, (overlap, searched.request_id)])

    def _count(self, outcome: str, searched: Searched) -> _Figures:
        """Count a search among the figures beside the encoder that answered it; another encoder begins new ones."""
        self._requests.labels(outcome).inc()
        with self._lock:
            if self._figures.encoder_identity != searched.encoder_identity:
                self._figures = _Figures(searched.encoder_identity)
            self._figures.counts[outcome] += 1
            return self._figures


def _yield_cores() -> None:
    """Let other threads run first; Linux has a priority for each thread."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
