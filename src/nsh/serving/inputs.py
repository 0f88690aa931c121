"""The images that `nsh encode` is given: files, addresses of stores, or archives of either.

Does not know how they are read or encoded.
"""

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from nsh.core.image_files import SUFFIXES, Exclude, is_image
from nsh.core.names import read_list
from nsh.errors import ConfigError, DataError
from nsh.serving.arguments import LIST, list_files, no_image
from nsh.serving.sources import Images
from nsh.serving.sources.addresses import address_below, is_address, local_path, without_secrets
from nsh.serving.sources.archives import ARCHIVES, is_archive, list_archives
from nsh.system.progress import Progress, no_progress


def find_images(
    arguments: Sequence[str],
    *,
    root: str | None = None,
    exclude: Sequence[str] = (),
    stdin: BinaryIO | None = None,
    progress: Progress = no_progress,
) -> Images:
    """Find the images that the arguments mean.

    Files and folders are those of `nsh.serving.arguments.list_files`. An address that ends like an image or an archive
    is one; another one is a root, whose objects are listed. Archives are read if they are named, or if a folder has no
    image beside them.

    Args:
        arguments: files, folders, addresses, or `LIST`.
        root: the folder or address that ids are relative to. With addresses, None means the root that is the only
            argument, else that ids are addresses; of archives alone it is the folder they are in. Names in a list may
            be relative to the address of a root.
        exclude: globs of ids and names to leave out.
        stdin: bytes of the list.
        progress: counts files or archives.

    Raises:
        ConfigError: a glob or a protocol is not valid, there are several roots, or a protocol's package is missing.
        DataError: there is no image, or there are files beside addresses, or archives beside images; and as
            `list_files`, `list_archives`, `walk_store`.
        DownloadError: a store does not answer.
    """
    named = [local_path(argument) for argument in arguments if argument != LIST]
    listed = [local_path(name) for name in read_list(stdin.read())] if LIST in arguments and stdin is not None else []
    places = [*named, *listed]
    root = None if root is None else local_path(root)
    if any(map(is_address, places)) or (root is not None and is_address(root)):
        return _find_objects(named, listed, root=root, exclude=exclude, progress=progress)
    lines = io.BytesIO(b"".join(os.fsencode(name) + b"\0" for name in listed))
    return _find_files(
        [*named, *[LIST] * (LIST in arguments)],
        lines,
        root=None if root is None else Path(root),
        exclude=exclude,
        progress=progress,
    )


def _find_files(
    arguments: Sequence[str], lines: BinaryIO, *, root: Path | None, exclude: Sequence[str], progress: Progress
) -> Images:
    if root is None and arguments and all(map(_is_archive_file, arguments)):  # ids have no part of their paths
        root = Path(os.path.commonpath([Path(argument).absolute().parent for argument in arguments]))
    for wanted in (is_image, _has_suffix):
        lines.seek(0)
        found = list_files(arguments, root=root, exclude=exclude, stdin=lines, wanted=wanted, progress=progress)
        if found.ids:
            places = {name: str(found.path(name)) for name in found.ids if is_archive(name)}
            return _choose(found, places, exclude=exclude, progress=progress)
    raise no_image(arguments, found.left_out)


def _find_objects(
    named: Sequence[str], listed: Sequence[str], *, root: str | None, exclude: Sequence[str], progress: Progress
) -> Images:
    from nsh.serving.sources.remote import name_addresses, walk_store

    if root is not None and not is_address(root):
        raise ConfigError(f"found --root {root} and addresses: allowed is the address that all are below")
    places = [_absolute(place, root) for place in (*named, *listed)]
    roots = [place for place in places[: len(named)] if not (is_image(_path(place)) or is_archive(place))]
    if not roots:
        found = name_addresses(places, root=root or "", exclude=Exclude(exclude))
        inside = {name: found.source.address(name) for name in found.ids if is_archive(name)}
        return _choose(found, inside, exclude=exclude, progress=progress)
    if len(places) > 1 or root not in (None, roots[0]):
        raise ConfigError(
            f"found the root {without_secrets(roots[0])} beside others: name one root, or give a list of addresses"
        )
    for suffixes in (SUFFIXES, ARCHIVES):
        found = walk_store(roots[0], suffixes, exclude=Exclude(exclude), progress=progress)
        if found.ids:
            inside = {name: found.source.address(name) for name in found.ids} if suffixes is ARCHIVES else {}
            return _choose(found, inside, exclude=exclude, progress=progress)
    raise no_image([without_secrets(roots[0])], found.left_out)


def _choose(found: Images, archives: Mapping[str, str], *, exclude: Sequence[str], progress: Progress) -> Images:
    """The images that were found, or those in the archives that were found instead."""
    if not archives:
        if not found.ids:
            raise DataError("found no image: every address is excluded, or the list is empty")
        return found
    if len(archives) < len(found.ids):
        other = next(name for name in found.ids if name not in archives)
        raise DataError(
            f"found the archive {next(iter(archives))} beside the image {other}: encode archives and images into "
            "folders of codes of their own"
        )
    images = list_archives(archives, exclude=exclude, progress=progress)
    if not images.ids:
        raise no_image(archives, images.left_out)
    return images


def _absolute(place: str, root: str | None) -> str:
    if is_address(place):
        return place
    if root is not None:
        return address_below(root, place)
    raise DataError(f"found the file {place} beside addresses: encode them into folders of codes of their own")


def _is_archive_file(argument: str) -> bool:
    return argument != LIST and is_archive(argument) and not Path(argument).is_dir()


def _has_suffix(path: str) -> bool:
    return path.lower().endswith(ARCHIVES)


def _path(address: str) -> str:
    return without_secrets(address).partition("?")[0]
