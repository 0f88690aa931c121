"""Images in archives: TAR files as webdataset writes them, and Parquet files with a column of images.

Images have the order of their archives, so that archives are read from the first to the last byte. Nothing is unpacked
to the disk. An archive may lie in a store.
"""

import stat
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from nsh.core.image_files import Exclude
from nsh.errors import DataError, UnreadableImage
from nsh.serving.sources import Content
from nsh.serving.sources.addresses import is_address, without_secrets
from nsh.serving.sources.members import Member
from nsh.serving.sources.names import reason_to_skip_path
from nsh.system.progress import Progress, no_progress

ARCHIVES = (".tar", ".parquet")
"""Suffixes of archives, in upper or lower case."""

_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".zip")


class Archive(NamedTuple):
    """An archive as it was listed: its path or address, its name in messages, its version and number of images."""

    place: str
    name: str
    version: Hashable
    images: int


class Format(Protocol):
    """How the archives of one format are read."""

    def list_members(self, file: IO[bytes], name: str) -> Iterator[Member]:
        """The images of an archive, in order."""
        ...

    def read_members(self, file: IO[bytes], members: Sequence[Member], *, key: Hashable) -> Iterator[Content]:
        """The contents of images, in order; `key` names the content of the archive."""
        ...


@dataclass(frozen=True)
class Archives:
    """Images in archives, in their order."""

    archives: tuple[Archive, ...]
    exclude: tuple[str, ...]  # the user's globs: what they leave out has no row

    def read(self, ids: Sequence[str], *, first: int) -> Iterator[Content]:
        """The contents of members; one that is not where it was listed is an error of its own.

        Raises:
            DataError: an archive is no longer whole.
            OSError: an archive can no longer be opened.
        """
        names = iter(ids)
        for archive, rows in self._parts(range(first, first + len(ids))):
            wanted = list(islice(names, len(rows)))
            listed = _list(archive.place, archive.name, self.exclude, archive.version)
            members = listed.members[rows.start : rows.stop]
            if [member.id for member in members] != wanted or _has_changed(archive):
                yield from [UnreadableImage("its archive has changed since it was listed")] * len(wanted)
                continue
            with _open(archive.place, exact=True) as file:
                yield from _format(archive.name).read_members(file, members, key=archive)

    def _parts(self, rows: range) -> Iterator[tuple[Archive, range]]:
        """The archives that hold these rows of the list, each with rows of its own."""
        begin = 0
        for archive in self.archives:
            own = range(max(rows.start - begin, 0), min(rows.stop - begin, archive.images))
            if own:
                yield archive, own
            begin += archive.images


@dataclass(frozen=True)
class ArchivedImages:
    """Images in archives. Ids are names of members, each once, in the order of the archives."""

    ids: list[str]
    left_out: Counter[str]
    source: Archives

    def any_below(self, folder: Path) -> bool:
        """No image is a file of its own."""
        return False


def is_archive(name: str) -> bool:
    """Whether a path, an address or an id ends like that of an archive.

    Raises:
        DataError: of an archive that cannot be read in parts.

    Examples:
        >>> is_archive("shards/000.tar"), is_archive("https://host/000.tar?sig=2e"), is_archive("a.jpg")
        (True, True, False)
    """
    path = (name.partition("?")[0] if is_address(name) else name).lower()
    if path.endswith(_COMPRESSED):
        raise DataError(f"{without_secrets(name) if is_address(name) else name} is compressed as a whole: unpack it")
    return path.endswith(ARCHIVES)


def list_archives(
    places: Mapping[str, str], *, exclude: Sequence[str] = (), progress: Progress = no_progress
) -> ArchivedImages:
    """List the images in archives.

    Args:
        places: the path or address of each archive, by its name in ids and messages.
        exclude: globs of ids and names to leave out.
        progress: counts archives.

    Raises:
        DataError: an archive is not whole, holds no images where it should, or two archives share an id.
        DownloadError: a store does not answer.
        OSError: an archive cannot be opened.
    """
    homes, archives, left_out = dict[str, str](), list[Archive](), Counter[str]()
    for name, place in progress(sorted(places.items()), desc="list archives", total=len(places)):
        version = _version(place)
        listed = _list(place, name, tuple(exclude), version)
        left_out.update(listed.left_out)
        archives.append(Archive(place, name, version, len(listed.members)))
        for member in listed.members:
            if member.id in homes:
                raise DataError(
                    f"{member.id!r} is in {homes[member.id]} and in {name}, and ids must differ: encode each into a "
                    "folder of codes of its own"
                )
            homes[member.id] = name
    return ArchivedImages(list(homes), left_out, Archives(tuple(archives), tuple(exclude)))


class _Listed(NamedTuple):
    members: list[Member]
    left_out: Counter[str]


@lru_cache(maxsize=16)
def _list(place: str, name: str, exclude: tuple[str, ...], version: Hashable) -> _Listed:
    """The images of an archive; of several members with one name the last one counts, as if they were unpacked."""
    globs, found, left_out = Exclude(exclude), dict[str, Member](), Counter[str]()
    with _open(place, exact=not _has_files(name)) as file:  # pyarrow asks for what it needs
        for member in _format(name).list_members(file, name):
            if reason := reason_to_skip_path(member.id, exclude=globs) if _has_files(name) else "":
                left_out[reason] += 1
            elif member.id in found and not _has_files(name):
                raise DataError(f"{name} names {member.id!r} twice: give every image an id of its own")
            else:
                found[member.id] = member
    return _Listed(list(found.values()), left_out)


def _has_files(name: str) -> bool:
    return name.lower().endswith(".tar")


def _format(name: str) -> Format:
    if _has_files(name):
        from nsh.serving.sources import tar

        return tar
    from nsh.serving.sources import parquet

    return parquet


def _open(place: str, *, exact: bool) -> AbstractContextManager[IO[bytes]]:
    if is_address(place):
        from nsh.serving.sources.stores import open_object

        return open_object(place, exact=exact)
    return Path(place).open("rb")


def _version(place: str) -> Hashable:
    """What differs once an archive has changed."""
    if is_address(place):
        from nsh.serving.sources.stores import version_of

        return version_of(place)
    status = Path(place).stat()
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{place} is no regular file, so it is no archive: name another")
    return status.st_size, status.st_mtime_ns


def _has_changed(archive: Archive) -> bool:
    """Whether a file of this machine is another one than was listed; to ask a store for each batch would take long."""
    return not is_address(archive.place) and _version(archive.place) != archive.version
