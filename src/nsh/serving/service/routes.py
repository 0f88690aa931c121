"""Routes that need no token: codes, information and probes."""

from asyncio import get_running_loop
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from starlette.responses import PlainTextResponse, Response

import nsh
from nsh.serving.service import answers, schemas
from nsh.serving.service.observe import record_of
from nsh.serving.service.problems import Problem
from nsh.serving.service.service import Service
from nsh.serving.service.uploads import FORM, RAW, Upload, read_images

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
IMAGES = {"image/*": _BINARY, RAW: _BINARY, FORM: _FILES}
IMAGE_BODY = {"requestBody": {"required": True, "content": IMAGES}}
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
    release = service.release
    outcomes = await release.batcher.encode([upload.content for upload in uploads])
    answers.require_one(outcomes)
    return answers.reply(
        {
            "encoder_identity": release.encoder.identity,
            "bits": release.library.bits,
            "results": answers.describe_codes(uploads, outcomes),
        }
    )


async def find_item(service: Service, id: str) -> NDArray[np.uint8]:
    """The code of an item.

    Raises:
        Problem: the index has no item with this id.
    """
    code = await get_running_loop().run_in_executor(service.searchers, service.release.library.find_code, id)
    if code is None:
        raise Problem("not-found", "the index has no item with this id")
    return code


@router.get("/v1/info", responses={200: {"model": schemas.Info}})
async def info(request: Request) -> Response:
    """The encoder, the index, and the limits of one request."""
    service = service_of(request)
    settings, release = service.settings, service.release
    contract, library = release.encoder.contract, release.library
    columns = await get_running_loop().run_in_executor(service.searchers, library.find_columns)
    return answers.reply(
        {
            "service": f"nsh {nsh.__version__}",
            "encoder_identity": release.encoder.identity,
            "method": contract.method,
            "backbone": contract.backbone,
            "bits": library.bits,
            "lengths": library.lengths,
            "image_size": contract.image_size,
            "items": len(library),
            "version": library.version,
            "columns": columns,
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
