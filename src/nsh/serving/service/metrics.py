"""Metrics for Prometheus. Every service has its own registry. Knows nothing of HTTP."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The service's counters."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self.registry = registry
        self.requests = Counter("nsh_requests", "Requests answered", ["route", "method", "status"], registry=registry)
        self.seconds = Histogram(
            "nsh_request_seconds", "From first byte to last, by route", ["route"], buckets=SECONDS, registry=registry
        )
        self.in_flight = Gauge("nsh_requests_in_flight", "Requests in work or waiting", registry=registry)
        self.refused = Counter("nsh_requests_refused", "Requests refused by a limit", ["limit"], registry=registry)
        self.closed = Counter("nsh_connections_closed", "Connections closed on a client", ["reason"], registry=registry)
        self.images = Counter("nsh_images", "Images decoded, or not", ["outcome"], registry=registry)
        self.batches = Histogram(
            "nsh_batch_images", "Images that shared one inference", buckets=SIZES, registry=registry
        )
        self.inference = Histogram(
            "nsh_batch_seconds", "Decoding and inference of one batch", buckets=SECONDS, registry=registry
        )
        self.items = Gauge("nsh_index_items", "Items in the index", registry=registry)
        self.version = Gauge("nsh_index_version", "Version of the index that is searched", registry=registry)

    def text(self) -> bytes:
        """The exposition format, version 0.0.4."""
        return generate_latest(self.registry)
