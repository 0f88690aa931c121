"""Routes that need no token: codes, nearest items, information and probes."""

from asyncio import get_running_loop
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from numpy.typing import NDArray
from starlette.responses import PlainTextResponse, Response

import nsh
from nsh.errors import CodesError, IndexUnusable, UnknownItem, UnreadableImage
from nsh.serving.encoder import Outputs
from nsh.serving.index import Filter
from nsh.serving.service import answers, schemas
from nsh.serving.service.library import Found, Library
from nsh.serving.service.observe import record_of
from nsh.serving.service.problems import Problem
from nsh.serving.service.service import Service
from nsh.serving.service.uploads import FORM, RAW, Upload, media_type, read_images

DEFAULT_HITS = 10
MAX_HITS = 1000
JSON = "application/json"
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": schemas.ProblemDocument, "description": "a problem document (RFC 9457)"},
    "5XX": {"model": schemas.ProblemDocument, "description": "a problem document (RFC 9457)"},
}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FILES = {
    "schema": {"type": "object", "properties": {"image": {"type": "array", "items": _BINARY["schema"]}}},
}
IMAGE_BODY = {"requestBody": {"required": True, "content": {"image/*": _BINARY, RAW: _BINARY, FORM: _FILES}}}
QUERY_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "image/*": _BINARY,
            RAW: _BINARY,
            FORM: _FILES,
            JSON: {"schema": schemas.Query.model_json_schema()},
        },
    }
}

router = APIRouter(responses=PROBLEMS)


def service_of(request: Request) -> Service:
    """The service of this request's application."""
    service: Service = request.app.state.service
    return service


async def receive_images(request: Request, *, limit: int) -> list[Upload]:
    """Read the images of the request's body; the log line gets their number."""
    uploads = await read_images(request.headers.get("content-type", ""), request.stream(), limit=limit)
    record_of(request.scope).fields["images"] = len(uploads)
    return uploads


@router.post("/v1/encode", responses={200: {"model": schemas.Codes}}, openapi_extra=IMAGE_BODY)
async def encode(request: Request) -> Response:
    """Codes of one image (as the body) or several (as files of a form)."""
    service = service_of(request)
    uploads = await receive_images(request, limit=service.settings.max_images)
    outcomes = await service.batcher.encode([upload.content for upload in uploads])
    answers.require_one(outcomes)
    return answers.reply(
        {
            "encoder_identity": service.encoder.identity,
            "bits": service.library.bits,
            "results": answers.describe_codes(uploads, outcomes),
        }
    )


@router.post("/v1/search", responses={200: {"model": schemas.Neighbours}}, openapi_extra=QUERY_BODY)
async def search(
    request: Request,
    k: Annotated[int | None, Query(ge=1, le=MAX_HITS, description="items at most")] = None,
    radius: Annotated[int | None, Query(ge=0, le=512, description="bits that may differ, at most")] = None,
    id_prefix: Annotated[str | None, Query(max_length=schemas.MAX_TEXT)] = None,
    column: Annotated[
        str | None, Query(max_length=schemas.MAX_TEXT, description="of the metadata, with `value`")
    ] = None,
    value: Annotated[str | None, Query(max_length=schemas.MAX_TEXT)] = None,
    rerank: Annotated[
        bool, Query(description="order the 1000 nearest by the image's logits; not for code or id")
    ] = False,
) -> Response:
    """The items nearest to an image, a code or an item: the nearest `k`, or all within `radius`, or both.

    Without `k` there are 10, or up to 1000 with a radius. With `rerank` they are the best of the 1000 nearest.
    """
    service = service_of(request)
    if (column is None) != (value is None):
        raise Problem("invalid", "column and value go together: give both or neither")
    where = Filter(id_prefix=id_prefix, column=column, value=value) if id_prefix or column is not None else None
    count = k or (DEFAULT_HITS if radius is None else MAX_HITS)
    find = _choose_search(service.library, await _find_query(request, service), rerank=rerank)
    try:
        found = await get_running_loop().run_in_executor(
            service.searchers, lambda: find(k=count, radius=radius, where=where)
        )
    except UnknownItem as error:
        raise Problem("not-found", "the index has no item with this id") from error
    except IndexUnusable:  # the application's handler answers it
        raise
    except CodesError as error:  # no item has this column
        raise Problem("invalid", str(error)) from error
    return answers.reply(
        {
            "code": found.code.tobytes().hex(),
            "bits": service.library.bits,
            "version": found.version,
            "hits": answers.describe_hits(found.hits),
        }
    )


def _choose_search(library: Library, query: Outputs | NDArray[np.uint8] | str, *, rerank: bool) -> Callable[..., Found]:
    """The search for a query, but for its range.

    Raises:
        Problem: re-ranking needs logits, and the query has none.
    """
    if not rerank:
        return partial(library.search, query.code if isinstance(query, Outputs) else query)
    if not isinstance(query, Outputs):
        raise Problem("invalid", "rerank needs an image, found a code or an id, which has no logits: send the image")
    return partial(library.search_reranked, query)


async def _find_query(request: Request, service: Service) -> Outputs | NDArray[np.uint8] | str:
    """The query: an image's outputs, a code, or the id of an item."""
    if media_type(request.headers.get("content-type", "")) != JSON:
        uploads = await receive_images(request, limit=1)
        (outcome,) = await service.batcher.encode([uploads[0].content])
        if isinstance(outcome, UnreadableImage):
            raise Problem("unreadable-image", str(outcome))
        return outcome
    query = answers.parse(schemas.Query, await request.body())
    if (query.code is None) == (query.id is None):
        raise Problem("invalid", "give either code or id")
    if query.id is None:
        return answers.read_code(query.code or "", bits=service.library.bits)
    return query.id


async def find_item(service: Service, id: str) -> NDArray[np.uint8]:
    """The code of an item.

    Raises:
        Problem: the index has no item with this id.
    """
    code = await get_running_loop().run_in_executor(service.searchers, service.library.find_code, id)
    if code is None:
        raise Problem("not-found", "the index has no item with this id")
    return code


@router.get("/v1/info", responses={200: {"model": schemas.Info}})
async def info(request: Request) -> Response:
    """The encoder, the index, and the limits of one request."""
    service = service_of(request)
    settings, contract = service.settings, service.encoder.contract
    return answers.reply(
        {
            "service": f"nsh {nsh.__version__}",
            "encoder_identity": service.encoder.identity,
            "method": contract.method,
            "backbone": contract.backbone,
            "bits": contract.bits,
            "image_size": contract.image_size,
            "items": len(service.library),
            "version": service.library.version,
            "thumbnails": settings.images is not None,
            "writable": settings.token is not None,
            "limits": {
                "body_bytes": settings.max_body,
                "pixels": settings.max_pixels,
                "images": settings.max_images,
                "hits": MAX_HITS,
                "requests_at_once": settings.queue,
                "seconds": settings.timeout,
            },
        }
    )


@router.get("/healthz", response_class=PlainTextResponse)
async def healthz() -> Response:
    """Whether the process answers."""
    return PlainTextResponse("ok\n")


@router.get("/readyz", response_class=PlainTextResponse)
async def readyz(request: Request) -> Response:
    """Whether the service should get requests."""
    if fault := service_of(request).fault:
        raise Problem("not-ready", fault)
    return PlainTextResponse("ready\n")


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Metrics in Prometheus' text format."""
    text = service_of(request).metrics.text()
    return Response(text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
