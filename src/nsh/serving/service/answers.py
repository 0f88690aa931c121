"""Converts between the service's arrays and the JSON documents of clients."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from nsh.core.codes import check_codes
from nsh.errors import CodesError, UnreadableImage
from nsh.serving.index import Hit, ScoredHit
from nsh.serving.service.batching import Outcome
from nsh.serving.service.problems import Problem
from nsh.serving.service.uploads import Upload

MAX_DOCUMENT = 512 * 1024  # bytes: the longest document that schemas allow, in UTF-8
MAX_MISTAKES = 10  # listing a hundred thousand would delay every other request for a second

T = TypeVar("T", bound=BaseModel)


def reply(document: dict[str, Any]) -> Response:
    """A JSON answer."""
    return Response(json.dumps(document), media_type="application/json", headers={"Cache-Control": "no-store"})


def parse(schema: type[T], body: bytes) -> T:
    """Read a JSON document.

    Raises:
        Problem: it is longer than any such document, or not what the schema says.
    """
    if len(body) > MAX_DOCUMENT:
        raise Problem("too-large", f"the document has more than the {MAX_DOCUMENT} bytes allowed", limit=MAX_DOCUMENT)
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        count = error.error_count()
        detail = explain(error.errors()) if count <= MAX_MISTAKES else f"found {count} mistakes: see /openapi.json"
        raise Problem("invalid", detail) from error


def explain(errors: Sequence[Any]) -> str:
    """The mistakes of a validation and their places, in one line, without values."""
    return "; ".join(f"{'.'.join(str(part) for part in error['loc']) or 'body'}: {error['msg']}" for error in errors)


def check_identity(given: str | None, answering: str) -> None:
    """Make sure that codes or logits are of the encoder that answers; None: their origin was not given.

    Raises:
        Problem: they are another one's.
    """
    if given is not None and given != answering:
        raise Problem(
            "other-encoder",
            f"these are of the encoder {given[:12]}, and {answering[:12]} has taken its place: send the image",
        )


def read_code(text: str, *, bits: int) -> NDArray[np.uint8]:
    """Convert hexadecimal to a code, uint8 [ceil(bits / 8)].

    Raises:
        Problem: it is no code of `bits` bits.
    """
    try:
        code = np.frombuffer(bytes.fromhex(text), np.uint8)
        check_codes(code[None], bits=bits)
    except (ValueError, CodesError) as error:
        raise Problem("invalid", f"code: {error}") from error
    return code


def read_logits(values: Sequence[float], *, bits: int) -> NDArray[np.float32]:
    """Convert the numbers of a document to logits, float32 [bits].

    Raises:
        Problem: there is not one for each bit, or one is too large for a float32.
    """
    if len(values) != bits:
        raise Problem("invalid", f"logits: found {len(values)}, needed is one for each of the {bits} bits")
    with np.errstate(over="ignore"):
        logits = np.array(values, np.float32)
    if not np.isfinite(logits).all():
        raise Problem("invalid", "logits: a number is too large")
    return logits


def describe_codes(uploads: Iterable[Upload], outcomes: Iterable[Outcome]) -> list[dict[str, str | None]]:
    """Each image's code or error."""
    return [
        {"name": upload.name, "code": None, "error": str(outcome)}
        if isinstance(outcome, UnreadableImage)
        else {"name": upload.name, "code": outcome.code.tobytes().hex(), "error": None}
        for upload, outcome in zip(uploads, outcomes, strict=True)
    ]


def describe_hits(hits: Iterable[Hit | ScoredHit]) -> list[dict[str, Any]]:
    """Hits in their order, with their scores if they have some."""
    return [hit._asdict() for hit in hits]


def require_one(outcomes: Sequence[Outcome]) -> None:
    """Make sure that at least one image was decoded.

    Raises:
        Problem: none was; it has the first image's error.
    """
    if all(isinstance(outcome, UnreadableImage) for outcome in outcomes):
        raise Problem("unreadable-image", str(outcomes[0]))
