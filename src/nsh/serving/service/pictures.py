"""Routes of the items' images, which the service has if it was told their root: a thumbnail, and the file as it is."""

import mimetypes
from asyncio import get_running_loop
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import FileResponse, Response

from nsh.errors import UnreadableImage
from nsh.serving.service import schemas
from nsh.serving.service.problems import Problem
from nsh.serving.service.routes import PROBLEMS, service_of
from nsh.serving.service.uploads import RAW

SHOWN = ("image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp", "image/avif")
"""What browsers show. Any other file is downloaded, so that none is run as a page of this service."""

_FOR_A_WHILE = {"Cache-Control": "private, max-age=300"}
_ITEM: dict[str, Any] = {"min_length": 1, "max_length": schemas.MAX_TEXT}

router = APIRouter(responses=PROBLEMS, default_response_class=Response)


@router.get("/v1/thumbnail", responses={200: {"content": {"image/webp": {}}}})
async def thumbnail(request: Request, id: Annotated[str, Query(**_ITEM)]) -> Response:
    """A thumbnail of an item, if the service has the images."""
    service = service_of(request)
    try:
        content = await get_running_loop().run_in_executor(service.thumbnailers, service.thumbnail, id)
    except UnreadableImage as error:
        raise Problem("unreadable-image", str(error)) from error
    if content is None:
        raise _missing()
    return Response(content, media_type="image/webp", headers=_FOR_A_WHILE)


@router.get("/v1/image", responses={200: {"content": {"image/*": {}, RAW: {}}}})
async def image(
    request: Request,
    id: Annotated[str, Query(**_ITEM)],
    download: Annotated[bool, Query(description="to be kept as a file and not shown")] = False,
) -> Response:
    """The file of an item as it is, if the service has the images."""
    service = service_of(request)
    path = await get_running_loop().run_in_executor(service.thumbnailers, service.find_file, id)
    if path is None:
        raise _missing()
    kind = media_type(path)
    place = "attachment" if download or kind == RAW else "inline"
    return FileResponse(path, media_type=kind, filename=path.name, content_disposition_type=place, headers=_FOR_A_WHILE)


def media_type(path: Path) -> str:
    """The media type that a file's name states, if browsers show it; else that of unknown bytes."""
    stated, _ = mimetypes.guess_type(path.name)
    return stated if stated in SHOWN else RAW


def _missing() -> Problem:
    return Problem("not-found", "there is no image of this item")
