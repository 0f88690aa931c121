"""The outermost middleware: gives every request an id, a log line, metrics and security headers. Knows no route."""

import re
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nsh.serving.service.logs import log
from nsh.serving.service.metrics import Metrics
from nsh.serving.service.problems import Problem, respond

RECORD = "nsh.record"
PROBES = ("/healthz", "/readyz", "/metrics")  # requested every few seconds by monitoring
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
STRICT = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass
class Record:
    """The log record of one request; inner layers fill it in."""

    request_id: str
    method: str  # one of METHODS, or "other": otherwise each invented method would be a time series
    status: int = 0
    bytes_in: int = 0
    fields: dict[str, Any] = field(default_factory=dict)
    start: float = field(default_factory=time.perf_counter)


def record_of(scope: Scope) -> Record:
    """The request's record."""
    record: Record = scope[RECORD]
    return record


class Observe:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self.app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, count it and log it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else "other"
        record = Record(_request_id(scope), method)
        # routes answer HEAD as they answer GET; the server drops the body
        scope = {**scope, RECORD: record, "method": "GET" if method == "HEAD" else scope["method"]}

        async def send_observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = record.request_id
                for name, value in STRICT.items():
                    headers[name] = value
            await send(message)

        try:
            await self.app(scope, receive, send_observed)
        except ClientDisconnect:
            pass
        except Exception as error:
            log("failed", level=40, failure=error, request_id=record.request_id)
            if not record.status:
                problem = Problem("internal", "this is the service's fault: its log has the request's id")
                await respond(problem, request_id=record.request_id)(scope, receive, send_observed)
        finally:
            self._log(scope, record)

    def _log(self, scope: Scope, record: Record) -> None:
        seconds = time.perf_counter() - record.start
        route = getattr(scope.get("route"), "path", "none")
        status = record.status or 499  # the client went away
        self._metrics.requests.labels(route, record.method, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        if route in PROBES and status == 200:
            return
        log(
            "request",
            request_id=record.request_id,
            method=record.method,
            route=route,
            status=status,
            milliseconds=round(seconds * 1000, 1),
            bytes_in=record.bytes_in,
            **record.fields,
        )


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and (given := _GIVEN_ID.fullmatch(value.decode("latin-1"))):
            return str(given[0])
    return uuid.uuid4().hex
