"""Images in TAR archives, as webdataset writes them: read in place, never unpacked.

A member's id is its name. Links, devices, sparse files and names that lead out of the archive are errors of their own.
"""

import io
import tarfile
from collections.abc import Hashable, Iterator, Sequence
from typing import IO

from nsh.core.image_files import is_utf8
from nsh.errors import DataError, UnreadableImage
from nsh.serving.sources import LARGEST, Content, too_large
from nsh.serving.sources.members import Member, check_name

_BLOCK = 512
_AT_ONCE = 64 << 20  # bytes of neighbouring members that are read together: a store takes long for each request


def list_members(file: IO[bytes], name: str) -> Iterator[Member]:
    """The members of an archive but for its folders, in order.

    Args:
        file: the archive, from its beginning; it is read here and there.
        name: of the archive, for messages.

    Raises:
        DataError: it is no TAR archive, it is compressed, or it ends too early.
    """
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            for info in archive:
                archive.members.clear()  # type: ignore[attr-defined]  # it would keep them all
                if not info.isdir():
                    yield _describe(info)
            end = archive.offset
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise _damaged(name, str(error)) from error
    file.seek(end)
    if file.read(_BLOCK).strip(b"\0"):  # tarfile takes a broken header for the end
        raise _damaged(name, f"no header at byte {end}")


def read_members(file: IO[bytes], members: Sequence[Member], *, key: Hashable) -> Iterator[Content]:
    """The contents of members, in order; `key`, which names the file's content, is not needed."""
    good = [member.place for member in members if not member.fault]
    begin, end = min((start for start, _ in good), default=0), max((sum(place) for place in good), default=0)
    file.seek(begin)
    near = io.BytesIO(file.read(end - begin)) if end - begin <= _AT_ONCE else None
    for member in members:
        start, size = member.place
        if member.fault:
            yield UnreadableImage(member.fault)
            continue
        place = file if near is None else near
        place.seek(start if near is None else start - begin)
        content = place.read(size)
        yield content if len(content) == size else UnreadableImage("the archive ends within it")


def _describe(info: tarfile.TarInfo) -> Member:
    name = info.name.removeprefix("./")
    fault = check_name(name)
    if not info.isreg() or info.issparse():
        fault = fault or "not a regular file"
    if info.size > LARGEST:
        fault = fault or str(too_large())
    if not is_utf8(name):
        name, fault = name.encode(errors="backslashreplace").decode(), "its name is not UTF-8"
    return Member(name, fault, (info.offset_data, info.size))


def _damaged(name: str, finding: str) -> DataError:
    return DataError(
        f"{name} is no whole TAR archive ({finding}): fetch or make it again; unpack a compressed one (gunzip, unzstd)"
    )
