"""The route of searches: from an image, its logits, a code or an item to the nearest items."""

from asyncio import get_running_loop
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
from fastapi import APIRouter, Query, Request
from numpy.typing import NDArray
from starlette.responses import Response

from nsh.core.codes import binarize, pack
from nsh.errors import CodesError, IndexUnusable, UnknownItem, UnreadableImage
from nsh.serving.index import Filter
from nsh.serving.service import answers, schemas
from nsh.serving.service.observe import record_of
from nsh.serving.service.problems import Problem
from nsh.serving.service.release import OpenRelease
from nsh.serving.service.routes import IMAGES, JSON, MAX_HITS, PROBLEMS, receive_images, service_of
from nsh.serving.service.service import Service
from nsh.serving.service.shadow import Searched
from nsh.serving.service.uploads import media_type

DEFAULT_HITS = 10
_DOCUMENT = {"schema": schemas.Query.model_json_schema()}
_BODY = {"requestBody": {"required": True, "content": {**IMAGES, JSON: _DOCUMENT}}}
_Text = Annotated[str | None, Query(max_length=schemas.MAX_TEXT)]

router = APIRouter(responses=PROBLEMS)


@router.post("/v1/search", responses={200: {"model": schemas.Neighbours}}, openapi_extra=_BODY)
async def search(
    request: Request,
    k: Annotated[int | None, Query(ge=1, le=MAX_HITS, description="items at most")] = None,
    radius: Annotated[int | None, Query(ge=0, le=512, description="bits that may differ, at most")] = None,
    id_prefix: _Text = None,
    column: Annotated[_Text, Query(description="of the metadata, with `value`")] = None,
    value: _Text = None,
    rerank: Annotated[bool, Query(description="order the 1000 nearest by the image's logits")] = False,
    bits: Annotated[int | None, Query(ge=1, le=512, description="compare the first bits alone: of `lengths`")] = None,
) -> Response:
    """The items nearest to an image, its logits, a code or an item: the nearest `k`, or all within `radius`, or both.

    Without `k` there are 10, or up to 1000 with a radius. With `bits` distances and scores are those of the first bits
    of a nested code; `/v1/info` lists the lengths. With `rerank` they are the best of the 1000 nearest; a code
    and an item have no logits to order them by.
    """
    service = service_of(request)
    if (column is None) != (value is None):
        raise Problem("invalid", "column and value go together: give both or neither")
    where = Filter(id_prefix=id_prefix, column=column, value=value) if id_prefix or column is not None else None
    count = k or (DEFAULT_HITS if radius is None else MAX_HITS)
    release, query, logits, image = await _find_query(request, service)
    library = release.library
    find = partial(library.search, query)
    if rerank:
        if logits is None:
            raise Problem("invalid", "rerank needs logits, found a code or an id, which has none: send the image")
        find = partial(library.search_reranked, logits)
    try:
        found = await get_running_loop().run_in_executor(
            service.searchers, lambda: find(k=count, radius=radius, where=where, bits=bits)
        )
    except UnknownItem as error:
        raise Problem("not-found", "the index has no item with this id") from error
    except IndexUnusable:  # the application's handler answers it
        raise
    except CodesError as error:  # no item has this column, or codes cannot be cut to these bits
        raise Problem("invalid", str(error)) from error
    whole = bits in (None, library.bits)  # another encoder's codes may have no such first bits
    if service.shadow is not None and whole and (image is not None or isinstance(query, str)):
        hits, request_id = [hit.id for hit in found.hits], record_of(request.scope).request_id
        origin: bytes | str = image if image is not None else str(query)
        service.shadow.offer(Searched(origin, where, rerank, hits, release.encoder.identity, request_id))
    return answers.reply(
        {
            "code": found.code.tobytes().hex(),
            "logits": None if logits is None else logits.tolist(),
            "encoder_identity": release.encoder.identity,
            "bits": library.bits,
            "compared": bits or library.bits,
            "version": found.version,
            "hits": answers.describe_hits(found.hits),
        }
    )


class _Query(NamedTuple):
    release: OpenRelease  # that all of the answer is from
    code: NDArray[np.uint8] | str  # or the id of an item
    logits: NDArray[np.float32] | None  # [bits], of an image
    image: bytes | None


async def _find_query(request: Request, service: Service) -> _Query:
    if media_type(request.headers.get("content-type", "")) != JSON:
        uploads = await receive_images(request, limit=1)
        release = service.release
        (outcome,) = await release.batcher.encode([uploads[0].content])
        if isinstance(outcome, UnreadableImage):
            raise Problem("unreadable-image", str(outcome))
        release.drift.observe(outcome.code)
        return _Query(release, outcome.code, outcome.logit, uploads[0].content)
    query = answers.parse(schemas.Query, await request.body())
    if [query.code, query.id, query.logits].count(None) != 2:
        raise Problem("invalid", "give one of code, id and logits")
    release = service.release
    answers.check_identity(query.encoder_identity, release.encoder.identity)
    bits = release.library.bits
    if query.logits is not None:
        logits = answers.read_logits(query.logits, bits=bits)
        return _Query(release, pack(binarize(logits[None]))[0], logits, None)
    return _Query(release, query.id or answers.read_code(query.code or "", bits=bits), None, None)


@router.get("/v1/shadow", responses={200: {"model": schemas.ShadowReport}})
async def shadow(request: Request) -> Response:
    """How a second release compares, if the service was started with one."""
    found = service_of(request).shadow
    if found is None:
        raise Problem("not-found", "start the service with --shadow to compare a second encoder")
    return answers.reply(found.report())
