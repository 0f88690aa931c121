"""Routes that need the token: add, update and delete items."""

import hmac
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Depends, Query, Request
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from nsh.errors import CodesError, IndexReplaced, IndexUnusable, NshError, UnknownItem, UnreadableImage
from nsh.serving.service import answers, schemas
from nsh.serving.service.problems import Problem
from nsh.serving.service.release import OpenRelease
from nsh.serving.service.routes import IMAGE_BODY, JSON, PROBLEMS, find_item, receive_images, service_of
from nsh.serving.service.service import Service
from nsh.serving.service.uploads import Upload, media_type

_ID = TypeAdapter(schemas.Id)
_BEARER = HTTPBearer(auto_error=False, description="the value of NSH_TOKEN")


def authorize(request: Request) -> None:
    """Check the token before the body is read.

    Raises:
        Problem: the service has no token, or the request has another.
    """
    token = service_of(request).settings.token
    if token is None:
        raise Problem("read-only", "start it with a token in the environment variable NSH_TOKEN to change items")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("utf-8"), token.encode("utf-8")):
        raise Problem("unauthorized", "send the header Authorization: Bearer <token>")


# HTTPBearer documents the scheme for OpenAPI; authorize is what checks it.
router = APIRouter(
    prefix="/v1/items", dependencies=[Depends(authorize), Depends(_BEARER)], responses=PROBLEMS, tags=["items"]
)


@router.post("", responses={200: {"model": schemas.Changed}}, openapi_extra=IMAGE_BODY)
async def add_items(request: Request) -> Response:
    """Add or update items from a form's files; a file's name is the id; unreadable images are left out."""
    service = service_of(request)
    uploads = await receive_images(request, limit=service.settings.max_images)
    names = _ids(uploads)

    async def add(release: OpenRelease) -> Response:
        outcomes = await release.batcher.encode([upload.content for upload in uploads])
        answers.require_one(outcomes)
        made = zip(names, outcomes, strict=True)
        codes = {name: outcome.code for name, outcome in made if not isinstance(outcome, UnreadableImage)}
        await _change(service, lambda: release.library.add(list(codes), np.stack(list(codes.values()))))
        described = answers.describe_codes(uploads, outcomes)
        return _changed(release, len(codes), [entry for entry in described if entry["error"]])

    return await _in_current(service, add)


@router.put("/{id:path}", responses={200: {"model": schemas.Changed}}, openapi_extra=IMAGE_BODY)
async def put_item(
    request: Request,
    id: schemas.Id,
    metadata: Annotated[
        list[schemas.Text] | None,
        Query(max_length=schemas.MAX_COLUMNS, description="key=value, repeated; in place of all it had; for an image"),
    ] = None,
) -> Response:
    """Add or update one item from an image, or from JSON with its code and metadata."""
    service = service_of(request)
    if media_type(request.headers.get("content-type", "")) == JSON:
        return await _put_code(service, id, answers.parse(schemas.NewItem, await request.body()))
    columns = None if metadata is None else [_pairs(metadata)]
    uploads = await receive_images(request, limit=1)

    async def put(release: OpenRelease) -> Response:
        (outcome,) = await release.batcher.encode([uploads[0].content])
        if isinstance(outcome, UnreadableImage):
            raise Problem("unreadable-image", str(outcome))
        await _change(service, lambda: release.library.add([id], outcome.code[None], columns))
        return _changed(release, 1, [])

    return await _in_current(service, put)


async def _put_code(service: Service, id: str, item: schemas.NewItem) -> Response:
    release = service.release
    answers.check_identity(item.encoder_identity, release.encoder.identity)
    code = answers.read_code(item.code, bits=release.library.bits)
    columns = None if item.metadata is None else [item.metadata]
    try:
        await _change(service, lambda: release.library.add([id], code[None], columns))
    except IndexReplaced as error:  # the code is the former encoder's
        raise Problem("other-encoder", "the encoder has just been replaced: encode the image again") from error
    return _changed(release, 1, [])


@router.delete("/{id:path}", responses={200: {"model": schemas.Changed}})
async def delete_item(request: Request, id: schemas.Id) -> Response:
    """Delete one item."""
    service = service_of(request)

    async def delete(release: OpenRelease) -> Response:
        await find_item(service, id)
        await _change(service, lambda: release.library.remove(id))
        return _changed(release, 1, [])

    return await _in_current(service, delete)


def _ids(uploads: Sequence[Upload]) -> list[str]:
    try:
        names = [_ID.validate_python(upload.name) for upload in uploads]
    except ValidationError as error:
        raise Problem("invalid", f"file name, which becomes the item's id: {error.errors()[0]['msg']}") from error
    if len(set(names)) < len(names):
        raise Problem("invalid", "found a file name twice: it becomes the item's id, so every file needs its own")
    return names


def _pairs(metadata: list[str]) -> dict[str, str]:
    pairs = dict(entry.split("=", 1) for entry in metadata if "=" in entry)
    if len(pairs) < len(metadata):
        raise Problem("invalid", "metadata: give key=value, each key once")
    return pairs


async def _in_current(service: Service, change: Callable[[OpenRelease], Awaitable[Response]]) -> Response:
    """Make a change in the current release; if another one takes its place meanwhile, make it there."""
    while True:
        release = service.release
        try:
            return await change(release)
        except IndexReplaced as error:
            try:
                await get_running_loop().run_in_executor(service.followers, service.move)
            except NshError:  # the new release cannot be opened; the client may try again
                raise error from None
            if service.release is release:
                raise


async def _change(service: Service, change: Callable[[], None]) -> None:
    try:
        await get_running_loop().run_in_executor(service.writers, change)
    except IndexUnusable:  # the application's handler answers it
        raise
    except UnknownItem as error:  # another writer has just removed it
        raise Problem("not-found", str(error)) from error
    except CodesError as error:  # an id is not allowed
        raise Problem("conflict", str(error)) from error


def _changed(release: OpenRelease, count: int, errors: list[dict[str, str | None]]) -> Response:
    library, identity = release.library, release.encoder.identity
    return answers.reply(
        {
            "changed": count,
            "items": len(library),
            "encoder_identity": identity,
            "version": library.version,
            "errors": errors,
        }
    )
