"""Arguments of commands: the image files that folders, files and lists mean, and the file of a model.

Reads names, never images. Does not know MLflow: a function that reads the registry is passed in.
"""

# There may be millions of names, so they are strings; they are never resolved, because a link's own name is the id.
# ruff: noqa: PTH100, PTH109, PTH112, PTH120

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nsh.core.image_files import NO_IMAGE, SUFFIXES, Exclude, describe, is_image, is_utf8, walk
from nsh.core.names import find_path, read_list
from nsh.errors import ConfigError, DataError
from nsh.serving.sources import Files
from nsh.system.fetch import download
from nsh.system.files import expand_home
from nsh.system.progress import Progress, no_progress

LIST = "-"
"""The argument that means a list on standard input."""

MAX_MODEL_BYTES = 4 << 30

FromRegistry = Callable[[str, Path], Path]
"""Writes the encoder that "models:/name@alias" means to a path, and returns the path."""

Walk = Callable[[str], Iterator[str]]
"""Gives the paths of the images in a folder."""


@dataclass(frozen=True)
class ImageList:
    """Files to encode. `root / ids[i]` is a file; ids are posix paths, sorted, each once."""

    root: Path
    ids: list[str]
    left_out: Counter[str]  # files that were left out, by reason

    @property
    def source(self) -> Files:
        """Reads the images."""
        return Files(self.root)

    def path(self, image_id: str) -> Path:
        """The path of an image."""
        return self.root / image_id

    def any_below(self, folder: Path) -> bool:
        """Whether one of the images is in `folder` or below it."""
        here, root = folder.resolve(), self.root.resolve()
        if not here.is_relative_to(root):
            return False
        prefix = "" if here == root else here.relative_to(root).as_posix() + "/"
        return any(image_id.startswith(prefix) for image_id in self.ids)


def list_images(
    arguments: Sequence[str],
    *,
    root: Path | None = None,
    exclude: Sequence[str] = (),
    stdin: BinaryIO | None = None,
    progress: Progress = no_progress,
) -> ImageList:
    """The images that the arguments mean: as `list_files`, and there must be one.

    Raises:
        ConfigError: a glob is not valid.
        DataError: as `list_files`, or there is no image at all.
    """
    found = list_files(arguments, root=root, exclude=exclude, stdin=stdin, progress=progress)
    if not found.ids:
        raise no_image(arguments, found.left_out)
    return found


def no_image(arguments: Iterable[str], left_out: Counter[str]) -> DataError:
    """The error where the arguments mean no image."""
    return DataError(
        f"found no image in {', '.join(arguments)} ({describe(left_out)}); image files end in {' '.join(SUFFIXES)}"
    )


def list_files(
    arguments: Sequence[str],
    *,
    root: Path | None = None,
    exclude: Sequence[str] = (),
    stdin: BinaryIO | None = None,
    wanted: Callable[[str], bool] = is_image,
    progress: Progress = no_progress,
) -> ImageList:
    """Find the files that the arguments mean; their order does not depend on that of the arguments.

    In a folder, image files are those of `nsh.core.image_files`. A named file is an image whatever its name, unless it
    is excluded. An id is the path below `root`; links are not resolved.

    Args:
        arguments: files, folders, or `LIST`: a list on `stdin`, see `nsh.core.names.read_list`. Names in a list may
            have other accents or slashes than the files.
        root: the folder that ids are relative to; None: the folder if it is the only argument, else the working folder.
        exclude: globs of ids and names to leave out, see `nsh.core.image_files.Exclude`.
        stdin: bytes of the list.
        wanted: whether a file in a folder counts, by its path.
        progress: counts files.

    Raises:
        ConfigError: a glob is not valid.
        DataError: an argument names no file, or an image is outside the root.
    """
    home, excluded = _root(arguments, root), Exclude(exclude)
    left_out: Counter[str] = Counter()

    def find(folder: str) -> Iterator[str]:
        for path in walk(folder, root=home, exclude=excluded, left_out=left_out):
            if wanted(path):
                yield path
            else:
                left_out[NO_IMAGE] += 1

    paths = progress(_find(arguments, stdin, find), desc="list images")
    return ImageList(Path(home), sorted(set(_kept(paths, home, left_out, excluded))), left_out)


def find_model(
    source: str,
    *,
    from_registry: FromRegistry | None = None,
    cache: Path | None = None,
    progress: Progress = no_progress,
) -> Path:
    """Find the file of a model, and download it if necessary.

    Args:
        source: a path; "https://host/encoder.onnx#sha256=<64 hex digits>", which is downloaded once; or
            "models:/name@alias" or "models:/name/version", which is downloaded each time, as aliases move.
        from_registry: downloads from the registry.
        cache: the folder of downloaded models; None: `nsh/models` in the user's cache folder.
        progress: shows MiB of a download.

    Raises:
        ConfigError: the digest is missing, the cache cannot be written, or there is no `from_registry`.
        DownloadError: the file cannot be fetched or is another one.
        TrackingError: from the registry.
    """
    if source.startswith("models:/"):
        if from_registry is None:
            raise ConfigError(
                f"{source} is in a model registry: pull it with `nsh registry pull`, give the file's path"
            )
        name = re.sub(r"[^\w.-]", "_", source.removeprefix("models:/"))
        return from_registry(source, _made(cache) / "registry" / f"{name}.onnx")
    if not re.match(r"https?://", source):
        return Path(expand_home(source))
    url, _, fragment = source.partition("#")
    digest = re.fullmatch(r"sha256=([0-9a-f]{64})", fragment)
    if digest is None or url.endswith("/"):
        raise ConfigError(
            f"found {source}: a model from the web is written https://host/encoder.onnx#sha256=<64 hex digits>, "
            "the digest as `sha256sum` prints it"
        )
    folder = _made(cache) / digest[1]
    return download(url, cache=folder, digest=f"sha256:{digest[1]}", limit=MAX_MODEL_BYTES, progress=progress)


def _made(cache: Path | None) -> Path:
    if cache is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        cache = Path(home) / "nsh" / "models"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{cache} cannot be made to keep models in ({error.strerror}): set XDG_CACHE_HOME to a folder that can"
        ) from error
    return cache


def _root(arguments: Sequence[str], root: Path | None) -> str:
    """An absolute path without dots, and without a slash at its end unless it is "/"."""
    if root is not None:
        if not root.is_dir():
            raise DataError(f"the root {root} is no folder: name the folder that all images are in")
        return os.path.abspath(root)
    if len(arguments) == 1 and arguments[0] != LIST and Path(arguments[0]).is_dir():
        return os.path.abspath(arguments[0])
    return os.getcwd()


def _find(arguments: Iterable[str], stdin: BinaryIO | None, walk_in: Walk) -> Iterator[str]:
    """Absolute paths, in any order, possibly repeated; `walk_in` gives those of a folder."""
    for argument in arguments:
        if argument == LIST:
            yield from _find_listed(stdin, walk_in)
        elif os.path.isdir(argument):
            yield from walk_in(os.path.abspath(argument))
        elif os.path.lexists(argument):
            yield os.path.abspath(argument)
        else:
            raise DataError(f"there is no image and no folder at {argument}: check the path")


def _find_listed(stdin: BinaryIO | None, walk_in: Walk) -> Iterator[str]:
    """The paths in the list; a missing file is an image that cannot be read and does not end the run."""
    for path in map(find_path, read_list(stdin.read() if stdin is not None else b"")):
        yield from walk_in(path) if os.path.isdir(path) else (path,)


def _kept(paths: Iterable[str], home: str, left_out: Counter[str], exclude: Exclude) -> Iterator[str]:
    """The ids of the paths that are not left out; named paths have not been checked before."""
    for path in paths:
        if not is_utf8(path):
            left_out["names that are not UTF-8"] += 1
        elif exclude(image_id := _id_of(path, home)):
            left_out["excluded files"] += 1
        else:
            yield image_id


def _id_of(path: str, home: str) -> str:
    prefix = home if home.endswith(os.sep) else home + os.sep
    if not path.startswith(prefix):
        common = os.path.commonpath([os.path.dirname(path), home])
        raise DataError(
            f"{json.dumps(path, ensure_ascii=False)} is not below {home}, which ids are relative to: "
            f"give --root {common}, or another folder that all images are in"
        )
    relative = path[len(prefix) :]
    return relative if os.sep == "/" else relative.replace(os.sep, "/")
