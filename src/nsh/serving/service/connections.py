"""Deadlines of connections, and a limit on their number.

uvicorn has no deadline for a request's headers and answers 503 to every client once there are too many connections;
hence this subclass of its protocol. `RequestLimits` applies once a request's headers are complete; this applies before
and after.
"""

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from nsh.serving.service.logs import log
from nsh.serving.service.metrics import Metrics
from nsh.serving.service.request_limits import LINGER_SECONDS

IDLE_CONNECTIONS = 1000
SPARE_SECONDS = LINGER_SECONDS + 5.0  # after a request's timeout; by then the client is not reading the answer
QUIET_SECONDS = 60.0  # between two log lines about too many connections
_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class ConnectionLimits:
    """Limits all connections: if there are too many, the one that has been waiting longest is closed.

    Attributes:
        timeout: seconds that a client may take to send a request's headers or to read an answer.
        backlog: connections that the operating system may queue.
    """

    def __init__(self, *, queue: int, timeout: float, metrics: Metrics) -> None:
        """Allow idle connections besides `queue` requests, and at most half of the process's open files."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        files = 2**20 if files == resource.RLIM_INFINITY else files
        self.timeout = timeout
        self.backlog = max(1, min(2048, files // 10))  # three times as many may be opening and closing
        self._limit = min(queue + IDLE_CONNECTIONS, files // 2)
        self._metrics = metrics
        self._silent_until = 0.0
        self._unlogged = 0

    def make_room(self, connections: set[Any]) -> None:
        """Close the oldest connection without a request in progress, if there is one connection too many."""
        if len(connections) > self._limit:
            oldest = min((each for each in connections if each.is_waiting), key=lambda each: each.since)
            connections.discard(oldest)
            self.close(oldest, "limit")
            self._log()

    def close(self, connection: "Connection", reason: str) -> None:
        """Close at once, without sending the rest."""
        self._metrics.closed.labels(reason).inc()
        connection.transport.abort()

    def _log(self) -> None:
        self._unlogged += 1
        now = asyncio.get_running_loop().time()
        if now >= self._silent_until:
            log("too many connections", level=30, limit=self._limit, closed=self._unlogged)
            self._silent_until, self._unlogged = now + QUIET_SECONDS, 0


class Connection(H11Protocol):
    """uvicorn's connection with a deadline at all times; between two requests uvicorn's own timer runs.

    Attributes:
        since: the event loop's time when the deadline was set.
    """

    def __init__(self, *arguments: Any, limits: ConnectionLimits, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.since = 0.0
        self._limits = limits
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no request is in progress: none has arrived completely, or the last one is answered."""
        return self.cycle is None or self.cycle.response_started

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the headers of a request."""
        super().connection_made(transport)
        self._wait(self._limits.timeout)
        self._limits.make_room(self.connections)

    def data_received(self, data: bytes) -> None:
        """Start a request if its headers are complete; incomplete headers do not extend the deadline."""
        cycle = self.cycle
        super().data_received(data)
        if self.cycle is not cycle:
            self._wait(self._limits.timeout + SPARE_SECONDS)
        elif self._deadline is None:
            self._wait(self._limits.timeout)

    def on_response_complete(self) -> None:
        """Start the next request if it has arrived; else wait for it, or for the client to read the answer."""
        cycle = self.cycle
        self._wait(None)
        super().on_response_complete()
        if self.cycle is not cycle:
            self._wait(self._limits.timeout + SPARE_SECONDS)
        elif self.transport.is_closing():
            self._wait(self._limits.timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._wait(None)
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that uvicorn's timer found idle, even if the client has not read the last answer."""
        self.transport.abort()

    def _should_upgrade(self) -> bool:
        return False  # answer in plain HTTP, without a warning in the log for each such client

    def _wait(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self.since = self.loop.time()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self.is_waiting and not self.transport.is_closing() and self.conn.trailing_data[0]:
            self.transport.write(_TIMEOUT)
        self._limits.close(self, "deadline")
