"""Reads objects of stores by their addresses, with fsspec: S3, Google Cloud Storage, Azure, web servers, ...

Credentials and endpoints are those of the environment, as each store's package reads them. What fails is one of three
things: an object that cannot be had (`UnreadableImage`), a store that does not answer (`DownloadError`, after some
tries), or an address that no store has (`ConfigError`). No message has more of an address than `without_secrets`.
Does not know what objects hold.
"""

import io
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from http import HTTPStatus
from typing import IO, Any, TypeVar

import fsspec

from nsh.errors import ConfigError, DataError, DownloadError, NshError, UnreadableImage
from nsh.serving.sources import LARGEST, too_large
from nsh.serving.sources.addresses import host_of, protocol_of, without_secrets
from nsh.system.loopback import is_loopback

WAITS = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each further try: throttled stores ask for some patience."""

_DEADLINES = {"sock_connect": 10.0, "sock_read": 30.0, "total": 300.0}
"""Seconds that a web server has to accept, to send the next bytes, and to send the whole object."""

_DEEPEST = 64  # folders within each other that are listed: a web server may invent them without end
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)

Made = TypeVar("Made")


class _Silence(Exception):
    """A store did not answer, or not to the end; the message says how."""


def read_object(address: str) -> bytes:
    """The content of an object.

    Raises:
        UnreadableImage: there is none, it may not be read, or it has more than `LARGEST` bytes.
        DownloadError: the store does not answer to the end, in several tries.
        ConfigError: the protocol is not known, or its package is missing.
    """
    store = open_store(address)
    return _patiently(partial(_read, store, address), address)


def list_objects(root: str) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Walk the folders below a root: the parts of a folder's path, its subfolders and its files.

    Subfolders that the caller takes out of their list are not walked. Names are as the store has them.

    Raises:
        DataError: there is nothing at the root, or it may not be listed.
        DownloadError: the store does not answer.
        ConfigError: as `read_object`.
    """
    store = open_store(root)
    base = store._strip_protocol(root).rstrip("/")
    folders: list[tuple[str, ...]] = [()]
    while folders:
        parts = folders.pop()
        here = "/".join([base, *parts])
        with _explained(root):
            subfolders, files = _patiently(partial(_list, store, here), root)
        kept = list(subfolders)
        yield list(parts), kept, files
        if len(parts) < _DEEPEST:
            folders += [(*parts, name) for name in kept]


@contextmanager
def open_object(address: str, *, exact: bool) -> Iterator[IO[bytes]]:
    """Open an object to be read in parts.

    Args:
        address: of the object.
        exact: ask the store for what is read alone; otherwise for some megabytes ahead, which costs fewer requests.

    Raises:
        DataError: there is none, or it may not be read.
        DownloadError: the store does not answer.
        ConfigError: as `read_object`.
    """
    store, options = open_store(address), {"cache_type": "none"} if exact else {}
    with _explained(address):
        file = _patiently(partial(store.open, address, "rb", **options), address)
        with file:
            try:
                yield file
            except (NshError, GeneratorExit):
                raise
            except Exception as error:
                raise _silent(address, _judge(error)) from error


def version_of(address: str) -> str:
    """What differs once an object has changed, as far as its store tells: of its tag, size and time.

    Raises:
        DataError: there is none, or it may not be read.
        DownloadError: the store does not answer.
        ConfigError: as `read_object`.
    """
    store = open_store(address)
    with _explained(address):
        version: str = _patiently(partial(store.ukey, address), address)
    return version


def open_store(address: str) -> Any:
    """The fsspec file system of an address; the same one for all threads if it can serve them at once.

    Raises:
        ConfigError: the protocol is not known, or its package is missing.
    """
    protocol, host = protocol_of(address), host_of(address)
    try:
        kind = fsspec.get_filesystem_class(protocol)
    except ValueError as error:
        known = ", ".join(f"{name}://" for name in ("file", "http", "https", "s3", "gs", "abfs", "hf"))
        raise ConfigError(f"found an address {protocol}://: allowed are {known} and others of fsspec") from error
    except ImportError as error:
        raise ConfigError(f"addresses {protocol}:// need another package: {error}") from error
    options = kind._get_kwargs_from_urls(address)
    if host is not None:
        return _open_web(kind, loopback=is_loopback(host))
    return _share(kind, tuple(sorted(options.items()))) if kind.async_impl else kind(**options)


@cache
def _share(kind: Any, options: tuple[tuple[str, Any], ...]) -> Any:
    """One for all threads; fsspec itself has one for each, with connections of its own."""
    return kind(**dict(options))


@cache
def _open_web(kind: Any, *, loopback: bool) -> Any:
    import aiohttp

    return kind(client_kwargs={"timeout": aiohttp.ClientTimeout(**_DEADLINES), "trust_env": not loopback})


class _Bounded(io.BytesIO):
    """Takes at most `LARGEST` bytes."""

    def write(self, block: Any) -> int:
        if self.tell() + len(block) > LARGEST:
            raise too_large()
        return super().write(block)


def _read(store: Any, address: str) -> bytes:
    if host_of(address) is not None:  # one request where `open` makes two, and bounded if the length is not told
        body = _Bounded()
        store.get_file(address, body)
        return body.getvalue()
    with store.open(address, "rb") as file:
        content: bytes = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise too_large()
    return content


def _list(store: Any, here: str) -> tuple[list[str], list[str]]:
    """Names of the subfolders and the files in a folder, sorted."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    prefix, web = here.rstrip("/") + "/", host_of(here) is not None
    for entry in store.ls(here, detail=True):
        path = entry["name"].rstrip("/")
        name = path[len(prefix) :].removeprefix("./") if path.startswith(prefix) else ""
        is_link = web and ("?" in name or "#" in name)  # to another order of the page; in a name they are quoted
        if "/" not in name and name not in ("", ".", "..") and not is_link:
            found[entry["type"] == "directory"].add(name)
    return sorted(found[True]), sorted(found[False])


def _patiently(work: Callable[[], Made], address: str) -> Made:
    """Do what a store may answer at a later try."""
    for wait in (*WAITS, None):
        try:
            return work()
        except NshError:
            raise
        except Exception as error:  # each store has its own kinds, many of them plain exceptions
            silence = _judge(error)
            if wait is None or _has_no_host(error):
                break
        time.sleep(wait)
    raise _silent(address, silence) from silence


def _has_no_host(error: Exception) -> bool:
    """Whether no host has this name: lists of addresses have many such, and none comes back in seconds."""
    cause = getattr(error, "os_error", error)
    return isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME


def _silent(address: str, silence: Exception) -> DownloadError:
    return DownloadError(
        f"{without_secrets(address)} cannot be read ({silence}): run the same command again to go on, "
        "what is encoded stays"
    )


def _judge(error: Exception) -> _Silence:
    """What a store's error means.

    Raises:
        UnreadableImage: the store has answered, and there is nothing to be had.
    """
    status = error.status if hasattr(error, "status") else getattr(error, "code", None)
    if isinstance(error, FileNotFoundError):
        raise UnreadableImage("cannot be read: 404 Not Found") from error
    if isinstance(error, PermissionError):
        raise UnreadableImage("cannot be read: 403 Forbidden") from error
    if isinstance(status, int) and status < 500 and status not in _PASSING:
        raise UnreadableImage(f"cannot be read: {_reason(error, status)}") from error
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        raise UnreadableImage("cannot be read: no valid address") from error
    return _Silence(_reason(error, status))


def _reason(error: Exception, status: Any) -> str:
    """Without the error's own text, which may have the address."""
    if isinstance(status, int) and status:
        return _name(status)
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or type(error).__name__


def _name(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"status {status}"


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Turn what is wrong with one image into what is wrong with a root or an archive."""
    try:
        yield
    except UnreadableImage as error:
        raise DataError(
            f"{without_secrets(address)} {error}: check the address, and the credentials in the environment"
        ) from error
