"""Admits requests to the service's own host names, and refuses changes by pages of other sites.

Another site can point its own name at this machine (DNS rebinding) and then read every answer, including thumbnails. A
browser also lets other sites send requests whose answers they cannot read. Starlette's TrustedHostMiddleware checks
lists of names only; here addresses are checked too, and a refusal says what to do.
"""

import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from nsh.serving.service.observe import record_of
from nsh.serving.service.problems import Problem, respond

_HOST = re.compile(r"(?:https?://)?(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::\d*)?", re.IGNORECASE)
_SAFE = ("GET", "HEAD", "OPTIONS")


def host_of(text: str) -> str | None:
    """The name or the address in a Host or Origin header, in lower case and without port; None if there is none."""
    found = _HOST.fullmatch(text)
    return (found["address"] or found["name"]).lower().rstrip(".") if found else None


class Hosts:
    """The host names of the service: `host in hosts`.

    At a loopback address they are `localhost` and loopback addresses. Elsewhere they also include every address, and
    every name without a dot, as in Docker Compose: no other site can own such names.
    """

    def __init__(self, listens_at: str, *, allowed: Sequence[str]) -> None:
        self._listens_at = listens_at.lower()
        self._allowed = [name.lower() for name in allowed]
        address = _address(self._listens_at)
        self._is_local = self._listens_at == "localhost" or (address is not None and address.is_loopback)

    def __contains__(self, host: str | None) -> bool:
        if not host:
            return False
        if host in (self._listens_at, "localhost") or host.endswith(".localhost") or self.are_given(host):
            return True
        address = _address(host)
        if self._is_local:
            return address is not None and address.is_loopback
        return address is not None or "." not in host

    def are_given(self, host: str) -> bool:
        """Whether `--allowed-hosts` has this host: as `name`, `*.domain` or `*`."""
        return any(host.endswith(name[1:]) if name[0] == "*" else host == name for name in self._allowed)


class Admission:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts) -> None:
        self.app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer with a problem."""
        if scope["type"] == "http":
            try:
                self._check(scope)
            except Problem as problem:
                await respond(problem, request_id=record_of(scope).request_id)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host")
        if host is not None and host_of(host) not in self._hosts:  # HTTP/1.0 has none, and no browser speaks it
            raise Problem("unknown-host", f"found {host!r}: start nsh serve with --allowed-hosts to add a name")
        if scope["method"] not in _SAFE and self._is_foreign(headers):
            raise Problem("cross-site", "a page of another site may not ask this: use the service's own page")
        try:
            unquote_to_bytes(scope["raw_path"] + b"?" + scope["query_string"]).decode()
        except UnicodeDecodeError as error:
            raise Problem("invalid", "the address is not UTF-8 behind its percent signs") from error

    def _is_foreign(self, headers: Headers) -> bool:
        """Whether a browser sends this for another site's page; other clients send neither header."""
        origin = headers.get("origin")
        if origin is not None and self._hosts.are_given(host_of(origin) or ""):
            return False
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site not in ("same-origin", "none")
        return origin is not None and origin.partition("://")[2] != headers.get("host")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
