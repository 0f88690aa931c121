"""Uploaded images: one as the body, or several as multipart/form-data, parsed as they arrive.

Uploads stay in memory; the middleware limits the size of the body. Knows nothing of the use of images.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from nsh.serving.service.filenames import file_name
from nsh.serving.service.problems import Problem

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

FORM = "multipart/form-data"
RAW = "application/octet-stream"
FIELDS = 64  # allowed parts of a form that are no files


class Upload(NamedTuple):
    """One image file; `name` is its file name in the form, if any."""

    name: str | None
    content: bytes


def media_type(content_type: str) -> str:
    """The bare media type of a Content-Type header, in lower case."""
    return content_type.partition(";")[0].strip().lower()


async def read_images(content_type: str, stream: AsyncIterator[bytes], *, limit: int) -> list[Upload]:
    """Read 1 to `limit` images.

    Raises:
        Problem: another media type, more images than allowed, no image, or a form that is not well formed.
    """
    kind = media_type(content_type)
    if kind == FORM:
        uploads = await _read_form(content_type, stream, limit=limit)
    elif kind.startswith("image/") or kind in ("", RAW):
        uploads = [Upload(None, b"".join([chunk async for chunk in stream]))]
    else:
        raise Problem("media-type", f"found {kind}, allowed are image/*, {RAW} and {FORM}")
    if not uploads:
        raise Problem("invalid", "the form has no file: send at least one image")
    return uploads


async def _read_form(content_type: str, stream: AsyncIterator[bytes], *, limit: int) -> list[Upload]:
    form = _Form(limit)
    _, options = parse_options_header(content_type.encode("latin-1"))
    try:
        parser = MultipartParser(options.get(b"boundary", b""), form.callbacks())
        async for chunk in stream:
            parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise Problem("invalid", f"the form is not well formed: {error}") from error
    if not form.ended:
        raise Problem("invalid", "the form breaks off before its last boundary")
    return form.uploads


class _Form:
    """Collects the parts that are files; up to `FIELDS` other parts are ignored."""

    def __init__(self, limit: int) -> None:
        self.uploads: list[Upload] = []
        self.ended = False
        self._limit = limit
        self._files = self._fields = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._field = self._value = b""
        self._name: str | None = None
        self._content: bytearray | None = None

    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self._headers, self._content, self._name = [], None, None
        self._field = self._value = b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers.append((self._field.lower(), self._value))
        self._field = self._value = b""

    def _headers_finished(self) -> None:
        disposition = dict(self._headers).get(b"content-disposition", b"")
        self._name = file_name(disposition)
        self._content = bytearray() if self._name is not None else None
        self._count()

    def _count(self) -> None:
        if self._content is not None:
            self._files += 1
        else:
            self._fields += 1
        if self._files > self._limit:
            raise Problem("too-many-images", f"the form has more than the {self._limit} files allowed: send fewer")
        if self._fields > FIELDS:
            raise Problem("invalid", f"the form has more than the {FIELDS} fields allowed beside files: none is used")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._content is not None:
            self._content += data[start:end]

    def _end(self) -> None:
        if self._content is not None:
            self.uploads.append(Upload(self._name or None, bytes(self._content)))
        self._content = None

    def _finish(self) -> None:
        self.ended = True
