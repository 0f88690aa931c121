"""The name of a file in a form, from its part's Content-Disposition header (RFC 7578, RFC 8187).

python-multipart's own parser ignores `filename*`, which some clients send alone.
"""

import re
from email.errors import MessageError
from email.header import decode_header, make_header
from urllib.parse import unquote_to_bytes

from nsh.serving.service.problems import Problem

_PARAMETER = re.compile(rb';\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)', re.DOTALL)
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ENCODED_WORDS = re.compile(r"(=\?[^?\s]+\?[BbQq]\?[^?\s]*\?=\s*)+")
_WINDOWS_FOLDERS = re.compile(r"(?:[A-Za-z]:|\\)\\(?:.*\\)?", re.DOTALL)


def file_name(disposition: bytes) -> str | None:
    """The file name in the header; None if the part is no file.

    `filename*` takes precedence over `filename`. `filename` may be raw UTF-8 (browsers, curl) or encoded words of RFC
    2047 (.NET); the folders of a Windows path are dropped.

    Raises:
        Problem: the name is not UTF-8, or states another charset.
    """
    parameters = {name.lower(): _unquoted(value) for name, value in _PARAMETER.findall(disposition)}
    try:
        if b"filename*" in parameters:
            return _extended(parameters[b"filename*"])
        return _plain(parameters[b"filename"]) if b"filename" in parameters else None
    except (ValueError, LookupError, MessageError) as error:
        shown = disposition.decode("ascii", "backslashreplace")
        raise Problem("invalid", f"found {shown}: the name of a file is UTF-8, plain or as RFC 8187 has it") from error


def _unquoted(value: bytes) -> bytes:
    value = value.strip()
    if len(value) < 2 or not (value.startswith(b'"') and value.endswith(b'"')):
        return value
    return re.sub(rb'\\(["\\])', rb"\1", value[1:-1])


def _extended(value: bytes) -> str:
    """A value as charset'language'percent-encoded; RFC 8187 allows only the charset UTF-8."""
    charset, _, encoded = value.split(b"'", 2)
    if charset.lower() != b"utf-8" or _BROKEN_ESCAPE.search(encoded):
        raise ValueError("neither UTF-8 nor percent-encoded")
    return unquote_to_bytes(encoded).decode()


def _plain(value: bytes) -> str:
    name = value.decode()
    if _ENCODED_WORDS.fullmatch(name):
        if any(charset not in ("utf-8", "us-ascii") for _, charset in decode_header(name)):
            raise ValueError("encoded words of another charset")
        name = str(make_header(decode_header(name)))
    return _WINDOWS_FOLDERS.sub("", name, count=1) if _WINDOWS_FOLDERS.match(name) else name
