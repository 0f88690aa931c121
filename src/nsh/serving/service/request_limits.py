"""Limits that apply while a request arrives: requests in progress, bytes of a body, seconds of a request.

If there are too many requests, or a request states that it is too large, it is refused before its body is read. A body
that grows too large is refused at the first byte beyond the limit. Knows nothing of images.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nsh.serving.service.metrics import Metrics
from nsh.serving.service.observe import PROBES, record_of
from nsh.serving.service.problems import Problem, respond
from nsh.serving.service.settings import MIB

LINGER_SECONDS = 2.0  # without a byte, while a client is still sending
LINGER_BYTES = 64 * MIB  # or twice the largest body allowed, if that is more
GRACE_SECONDS = 1.0  # before a body's speed is checked
SLOWEST = 1024  # bytes of a body a second; a slower request is ended if another one needs its place


class _Overflow(Exception):
    """The body is too large. Inner layers do not know this error, so it reaches this middleware."""


class _Exchange:
    """One request's body as it arrives, and its answer, whose end is delayed until the body has arrived.

    If a connection is closed with unread bytes, the client may lose the answer.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.record = record_of(scope)
        self.start = asyncio.get_running_loop().time()
        headers = dict(scope["headers"])
        self.arrived = b"transfer-encoding" not in headers and headers.get(b"content-length", b"0") == b"0"
        self._receive = receive
        self._send = send
        self._held = False

    @property
    def is_slow(self) -> bool:
        """Whether the body arrives too slowly."""
        seconds = asyncio.get_running_loop().time() - self.start
        return not self.arrived and seconds > GRACE_SECONDS and self.record.bytes_in < SLOWEST * seconds

    async def receive(self) -> Message:
        """The next piece of the body, counted."""
        message = await self._receive()
        self.record.bytes_in += len(message.get("body", b""))
        self.arrived = not message.get("more_body", False)  # also if the client has disconnected
        return message

    async def send(self, message: Message) -> None:
        """Send a piece of the answer, but not its end."""
        if message["type"] == "http.response.body" and not message.get("more_body", False) and not self.arrived:
            self._held = True
            message = {**message, "more_body": True}
        await self._send(message)

    async def end(self, *, until: float, most: int) -> None:
        """Drop the rest of the body, up to `most` bytes and the event loop's time `until`; then end the answer."""
        if not self._held:
            return
        loop = asyncio.get_running_loop()
        try:
            while not self.arrived and self.record.bytes_in < most:
                async with asyncio.timeout_at(min(until, loop.time() + LINGER_SECONDS)):
                    await self.receive()
        except TimeoutError:
            pass
        await self._send({"type": "http.response.body", "body": b""})


class RequestLimits:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, max_body: int, queue: int, timeout: float, metrics: Metrics) -> None:
        self.app = app
        self._max_body = max_body
        self._queue = queue
        self._timeout = timeout
        self._metrics = metrics
        self._in_flight: dict[_Exchange, asyncio.Timeout] = {}  # in the order of arrival

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, within the limits."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        try:
            self._check_head(scope)
            await self._pass_on(scope, exchange)
        except Problem as problem:
            await self._refuse(problem, scope, exchange)
        until = exchange.start + self._timeout + LINGER_SECONDS
        await exchange.end(until=until, most=max(2 * self._max_body, LINGER_BYTES))

    def _check_head(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if {b"content-length", b"transfer-encoding"} <= headers.keys():
            raise Problem("invalid", "found Content-Length and Transfer-Encoding: send one of them")
        if int(headers.get(b"content-length", b"0")) > self._max_body:
            raise self._too_large()

    def _too_large(self) -> Problem:
        return Problem("too-large", f"the body has more than the {self._max_body} bytes allowed", limit=self._max_body)

    @contextmanager
    def _place(self, exchange: _Exchange, limit: asyncio.Timeout) -> Iterator[None]:
        """Take a place among the requests in progress."""
        if len(self._in_flight) >= self._queue:
            self._make_room()
        self._in_flight[exchange] = limit
        self._metrics.in_flight.set(len(self._in_flight))
        try:
            yield
        finally:
            self._in_flight.pop(exchange, None)
            self._metrics.in_flight.set(len(self._in_flight))

    def _make_room(self) -> None:
        for exchange, limit in self._in_flight.items():
            if exchange.is_slow and not limit.expired():
                limit.reschedule(0)  # end it now
                del self._in_flight[exchange]
                return
        raise Problem("overloaded", f"{self._queue} requests are in work or waiting already: come again")

    async def _pass_on(self, scope: Scope, exchange: _Exchange) -> None:
        async def receive_limited() -> Message:
            message = await exchange.receive()
            if exchange.record.bytes_in > self._max_body:
                raise _Overflow
            return message

        try:
            async with asyncio.timeout(self._timeout) as limit:
                # health probes need no place: a busy service must answer them
                with nullcontext() if scope["path"] in PROBES else self._place(exchange, limit):
                    await self.app(scope, receive_limited, exchange.send)
        except _Overflow:
            raise self._too_large() from None
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._too_late(exchange) from None

    def _too_late(self, exchange: _Exchange) -> Problem:
        passed = f"more than the {self._timeout:g} seconds allowed have passed"
        if exchange.arrived:
            return Problem("out-of-time", passed)
        return Problem("too-slow", f"{passed}, or less than {SLOWEST} bytes a second came while others waited")

    async def _refuse(self, problem: Problem, scope: Scope, exchange: _Exchange) -> None:
        self._metrics.refused.labels(problem.kind).inc()
        record = exchange.record
        if not record.status:  # else the answer has begun and cannot be changed
            answer = respond(problem, request_id=record.request_id, headers={"Connection": "close"})
            await answer(scope, exchange.receive, exchange.send)
