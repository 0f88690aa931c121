"""What a command is given: which files are meant by folders, files and lists, and where a model is.

Reads names, never images. It does not know MLflow: whoever does hands in a function.
"""

# There may be millions of names: strings, and never resolved, as a link's own name is the id.
# ruff: noqa: PTH100, PTH109, PTH112, PTH114, PTH118, PTH120

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from nsh.core.errors import ConfigError, DataError
from nsh.core.fetch import download
from nsh.core.files import expand_home
from nsh.core.preprocess import FORMATS
from nsh.core.progress import Progress, no_progress

LIST = "-"
"""The argument that stands for a list on standard input."""

MAX_MODEL_BYTES = 4 << 30

FromRegistry = Callable[[str, Path], Path]
"""Writes the encoder that "models:/name@alias" means to a path, and returns the path."""


@dataclass(frozen=True)
class ImageList:
    """Files to encode. `root / ids[i]` is a file; ids are posix paths, sorted, each once."""

    root: Path
    ids: list[str]
    left_out: Counter[str]  # files that were met and are not meant, by reason

    def path(self, image_id: str) -> Path:
        """Where the image of that id is."""
        return self.root / image_id


def list_images(
    arguments: Sequence[str],
    *,
    root: Path | None = None,
    stdin: BinaryIO | None = None,
    progress: Progress = no_progress,
) -> ImageList:
    """Find the images that the arguments mean, in an order that does not depend on theirs.

    In folders, files count whose name ends like an image's, hidden ones left out and linked folders not entered. A
    file that is named counts whatever its name. An id is the path below `root`, with links left as they are.

    Args:
        arguments: files, folders, or `LIST`: a list on `stdin`, one path a line, or each ended by a zero byte as
            `find -print0` does (for names that hold a newline).
        root: what ids are relative to; None: the folder, if one folder is the only argument, else the working folder.
        stdin: bytes of the list.
        progress: counts files.

    Raises:
        DataError: an argument names nothing, an image lies outside of the root, or there is no image at all.
    """
    home = _root(arguments, root)
    left_out: Counter[str] = Counter()
    paths = progress(_find(arguments, stdin, left_out), desc="list images")
    ids = sorted({_id_of(path, home) for path in _readable_names(paths, left_out)})
    if not ids:
        raise DataError(f"found no image in {', '.join(arguments)} ({describe(left_out)}); {_allowed()}")
    return ImageList(Path(home), ids, left_out)


def describe(left_out: Counter[str]) -> str:
    """What was left out, in words."""
    return "left out: " + (", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items())) or "nothing")


def suffixes() -> frozenset[str]:
    """Ends of names of image files, in lower case."""
    return frozenset(end for end, kind in Image.registered_extensions().items() if kind in FORMATS)


def find_model(
    source: str,
    *,
    from_registry: FromRegistry | None = None,
    cache: Path | None = None,
    progress: Progress = no_progress,
) -> Path:
    """The file that a model's name means, fetched if need be.

    Args:
        source: a path; "https://host/encoder.onnx#sha256=<64 hex digits>", which is fetched once and then kept; or
            "models:/name@alias" or "models:/name/version", which is asked for each time, as aliases move.
        from_registry: how to get the last kind.
        cache: where what is fetched is kept; None: `nsh/models` in the user's cache folder.
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
    """An absolute path without dots and without a slash at its end (but "/")."""
    if root is not None:
        if not root.is_dir():
            raise DataError(f"the root {root} is no folder: name the folder that all images are in")
        return os.path.abspath(root)
    if len(arguments) == 1 and arguments[0] != LIST and Path(arguments[0]).is_dir():
        return os.path.abspath(arguments[0])
    return os.getcwd()


def _find(arguments: Iterable[str], stdin: BinaryIO | None, left_out: Counter[str]) -> Iterator[str]:
    """Absolute paths, in any order, perhaps twice."""
    for argument in arguments:
        if argument == LIST:
            yield from _find_listed(stdin, left_out)
        elif os.path.isdir(argument):
            yield from _walk(os.path.abspath(argument), left_out)
        elif os.path.lexists(argument):
            yield os.path.abspath(argument)
        else:
            raise DataError(f"there is no image and no folder at {argument}: check the path")


def _find_listed(stdin: BinaryIO | None, left_out: Counter[str]) -> Iterator[str]:
    """A file of the list that is not there is an image that cannot be read, not the end of the run."""
    content = stdin.read() if stdin is not None else b""
    for name in content.split(b"\0" if b"\0" in content else b"\n"):
        path = os.path.abspath(os.fsdecode(name))
        if name:
            yield from _walk(path, left_out) if os.path.isdir(path) else (path,)


def _walk(folder: str, left_out: Counter[str]) -> Iterator[str]:
    def note(error: OSError) -> None:
        left_out["folders that cannot be read"] += 1

    ends = tuple(suffixes())
    for here, subfolders, files in os.walk(folder, onerror=note):
        for name in list(subfolders):
            if name.startswith(".") or os.path.islink(os.path.join(here, name)):
                left_out["hidden folders" if name.startswith(".") else "linked folders"] += 1
                subfolders.remove(name)
        for name in files:
            if name.startswith("."):
                left_out["hidden files"] += 1
            elif not name.lower().endswith(ends):
                left_out["files that are no images by name"] += 1
            else:
                yield os.path.join(here, name)


def _readable_names(paths: Iterable[str], left_out: Counter[str]) -> Iterator[str]:
    for path in paths:
        try:
            path.encode()
        except UnicodeEncodeError:
            left_out["names that are not UTF-8"] += 1
        else:
            yield path


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


def _allowed() -> str:
    return f"image files end in {' '.join(sorted(suffixes()))}"
