"""Errors as RFC 9457 problem documents: one list of kinds, one response format. Knows no route."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.responses import Response

from nsh.errors import (
    IndexBusy,
    IndexDamaged,
    IndexFull,
    IndexMisplaced,
    IndexMissing,
    IndexReadOnly,
    IndexReplaced,
    IndexUnusable,
)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
LONGEST_DETAIL = 500  # characters; some of it may be the client's own


class Kind(NamedTuple):
    """The status and title of all problems of one kind."""

    status: int
    title: str


KINDS = {
    "unknown-host": Kind(400, "This service does not go by that name"),
    "unauthorized": Kind(401, "A valid bearer token is needed"),
    "read-only": Kind(403, "The index cannot be changed here"),
    "cross-site": Kind(403, "Not for pages of other sites"),
    "not-found": Kind(404, "There is no such thing"),
    "method-not-allowed": Kind(405, "Not with this method"),
    "too-slow": Kind(408, "The request did not arrive in time"),
    "conflict": Kind(409, "The index does not allow this change"),
    "other-encoder": Kind(409, "Another encoder answers now"),
    "too-large": Kind(413, "The request is too large"),
    "too-many-images": Kind(413, "Too many images in one request"),
    "media-type": Kind(415, "This kind of content is not understood"),
    "invalid": Kind(422, "The request is not valid"),
    "unreadable-image": Kind(422, "No image could be decoded"),
    "internal": Kind(500, "The service failed"),
    "damaged": Kind(500, "The index is damaged"),
    "busy": Kind(503, "The index is being changed"),
    "overloaded": Kind(503, "Too many requests at once"),
    "not-ready": Kind(503, "The service is not ready"),
    "out-of-time": Kind(504, "The answer was not ready in time"),
    "disk-full": Kind(507, "There is no room for the change"),
}

_HEADERS = {
    "unauthorized": {"WWW-Authenticate": "Bearer"},
    "busy": {"Retry-After": str(RETRY_SECONDS)},
    "overloaded": {"Retry-After": str(RETRY_SECONDS)},
    "not-ready": {"Retry-After": str(RETRY_SECONDS)},
}

_OF_THE_INDEX: dict[type[IndexUnusable], str] = {
    IndexUnusable: "not-ready",
    IndexMissing: "not-ready",
    IndexMisplaced: "not-ready",
    IndexBusy: "busy",
    IndexDamaged: "damaged",
    IndexFull: "disk-full",
    IndexReadOnly: "read-only",
    IndexReplaced: "busy",
}


class Problem(Exception):
    """Ends a request with a problem document.

    Attributes:
        kind: a key of `KINDS`.
        detail: one sentence about this case: what was found, what is allowed, what to do.
    """

    def __init__(self, kind: str, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.members = members  # further members of the document


def problem_of(error: IndexUnusable) -> Problem:
    """The problem for an index that cannot be read or changed."""
    return Problem(_OF_THE_INDEX[type(error)], str(error))


def respond(problem: Problem, *, request_id: str, headers: Mapping[str, str] | None = None) -> Response:
    """The problem as a response."""
    kind = KINDS[problem.kind]
    detail = problem.detail
    document = {
        "type": f"urn:nsh:problem:{problem.kind}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail if len(detail) <= LONGEST_DETAIL else f"{detail[:LONGEST_DETAIL]} …",
        "request_id": request_id,
        **problem.members,
    }
    every = {**_HEADERS.get(problem.kind, {}), "Cache-Control": "no-store", **(headers or {})}
    return Response(json.dumps(document), status_code=kind.status, media_type=MEDIA_TYPE, headers=every)
