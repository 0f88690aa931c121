"""Limits that hold while bytes arrive: requests in flight, bytes of a body, seconds of a request.

A request too many, and one that says it is too large, is refused before a byte of it is read; one that grows too
large, at the byte that is too many. Knows nothing of images.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nsh.serving.service.metrics import Metrics
from nsh.serving.service.observe import Record, record_of
from nsh.serving.service.problems import Problem, respond

LINGER_SECONDS = 1.0
ALWAYS = ("/healthz", "/readyz", "/metrics")  # a busy service must still be able to say so


class _Overflow(Exception):
    """The body has grown too large; no layer within knows this error, so it ends the request here."""


class Limits:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, max_body: int, queue: int, timeout: float, metrics: Metrics) -> None:
        self.app = app
        self._max_body = max_body
        self._queue = queue
        self._timeout = timeout
        self._metrics = metrics
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if it keeps within the limits."""
        if scope["type"] != "http" or scope["path"] in ALWAYS:
            await self.app(scope, receive, send)
            return
        record = record_of(scope)
        try:
            self._check_door(scope)
        except Problem as problem:
            await self._refuse(problem, record, receive, send)
            return
        self._in_flight += 1
        self._metrics.in_flight.set(self._in_flight)
        try:
            await self._pass_on(record, scope, receive, send)
        finally:
            self._in_flight -= 1
            self._metrics.in_flight.set(self._in_flight)

    def _check_door(self, scope: Scope) -> None:
        if self._in_flight >= self._queue:
            raise Problem("overloaded", f"{self._queue} requests are in work or waiting already: come again")
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._max_body:
            raise self._too_large()

    def _too_large(self) -> Problem:
        return Problem("too-large", f"the body has more than the {self._max_body} bytes allowed", limit=self._max_body)

    async def _pass_on(self, record: Record, scope: Scope, receive: Receive, send: Send) -> None:
        arrived = not {b"content-length", b"transfer-encoding"} & dict(scope["headers"]).keys()

        async def receive_counted() -> Message:
            nonlocal arrived
            message = await receive()
            if message["type"] == "http.request":
                record.bytes_in += len(message.get("body", b""))
                arrived = not message.get("more_body", False)
                if record.bytes_in > self._max_body:
                    raise _Overflow
            return message

        try:
            async with asyncio.timeout(self._timeout) as limit:
                await self.app(scope, receive_counted, send)
        except _Overflow:
            await self._refuse(self._too_large(), record, receive, send)
        except TimeoutError:
            if not limit.expired():
                raise
            kind = "out-of-time" if arrived else "too-slow"
            problem = Problem(kind, f"more than the {self._timeout:g} seconds allowed have passed")
            await self._refuse(problem, record, receive, send)

    async def _refuse(self, problem: Problem, record: Record, receive: Receive, send: Send) -> None:
        """Answer, then let the client finish what it is sending for a moment.

        A connection closed on unread bytes would take the answer down with it.
        """
        self._metrics.refused.labels(problem.kind).inc()
        if record.status:  # the answer is on its way already; nothing can be put right
            return
        response = respond(problem, request_id=record.request_id, headers={"Connection": "close"})
        await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
        await send({"type": "http.response.body", "body": bytes(response.body), "more_body": True})
        await self._drain(receive)
        await send({"type": "http.response.body", "body": b""})

    async def _drain(self, receive: Receive) -> None:
        remaining = self._max_body
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while remaining > 0:
                    message = await receive()
                    remaining -= len(message.get("body", b""))
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return
        except TimeoutError:
            return
