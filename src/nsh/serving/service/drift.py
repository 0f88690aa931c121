"""Compares the codes of queries with the encoder's reference profile, window by window. Knows nothing of HTTP.

A query costs one row that is copied. Every `WINDOW` queries, the codes of the full window are counted and compared,
which takes half a millisecond.
"""

import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from nsh.core.codes import code_bytes
from nsh.core.drift import Drift, compare
from nsh.core.reference import ReferenceProfile, Tally, tally
from nsh.serving.service.metrics import Metrics

WINDOW = 200
"""Queries of a window. Windows do not overlap, so that their alarms are independent."""


class WindowResult(NamedTuple):
    """The last full window."""

    counts: Tally
    drift: Drift


class DriftMonitor:
    """Watches the codes of one encoder. Several threads may use it at once.

    It is a collector of Prometheus, so that a metric is computed when it is asked for and not with every query.
    """

    def __init__(self, reference: ReferenceProfile | None, metrics: Metrics) -> None:
        """Watch; without a reference nothing is counted, and `nsh_drift_reference_images` is 0."""
        self._reference = reference
        self._lock = threading.Lock()
        self._codes = np.empty((WINDOW, code_bytes(reference.bits) if reference else 0), np.uint8)
        self._filled = self._windows = self._alarms = 0
        self._last: WindowResult | None = None
        metrics.registry.register(self)

    def observe(self, code: NDArray[np.uint8]) -> None:
        """Count the code of a query, uint8 [ceil(bits / 8)]."""
        if self._reference is None:
            return
        with self._lock:
            self._codes[self._filled] = code
            self._filled += 1
            if self._filled == WINDOW:
                self._close_window(self._reference)

    def _close_window(self, reference: ReferenceProfile) -> None:
        counts = tally(self._codes, reference.anchors, bits=reference.bits)
        self._last = WindowResult(counts, compare(counts, reference))
        self._filled = 0
        self._windows += 1
        self._alarms += self._last.drift.alarm

    def collect(self) -> Iterator[Metric]:
        """The metrics; those of a window exist once there was one."""
        with self._lock:
            filled, windows, alarms, last = self._filled, self._windows, self._alarms, self._last
        known = self._reference.held_out.images if self._reference else 0
        yield _gauge("reference_images", "Images of the encoder's reference profile; 0: it has none", known)
        yield _gauge("waiting_images", "Queries in the window that is not yet full", filled)
        yield CounterMetricFamily("nsh_drift_windows", f"Windows of {WINDOW} queries compared", windows)
        yield CounterMetricFamily("nsh_drift_alarms", "Windows that differ from the reference", alarms)
        if last is not None:
            yield from _describe(last)


def _describe(last: WindowResult) -> Iterator[Metric]:
    counts, drift = last
    yield _gauge("images", "Queries of the last window", drift.images)
    yield _gauge("alarm", "1: the last window differs from the reference", drift.alarm)
    yield _gauge("p_value", "Rate of false alarms at which the last window is one", drift.p_value)
    yield _gauge("bits_statistic", "Sum of squared differences of the bits' rates over its expectation", drift.bits)
    yield _gauge("distance_statistic", "Change of the mean distance to the nearest anchor, in errors", drift.distance)
    ones = GaugeMetricFamily("nsh_drift_bit_ones", "Queries of the last window whose bit is 1", labels=["bit"])
    for bit, count in enumerate(counts.ones):
        ones.add_metric([str(bit)], count)
    yield ones
    nearest = GaugeMetricFamily(
        "nsh_drift_nearest_images", "Queries of the last window by bits to the nearest anchor", labels=["distance"]
    )
    for distance in np.flatnonzero(counts.nearest):
        nearest.add_metric([str(distance)], counts.nearest[distance])
    yield nearest


def _gauge(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"nsh_drift_{name}", meaning, value)
