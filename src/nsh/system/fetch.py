"""Downloads one file: resumable, checked, complete or absent. Knows nothing of its content.

Proxies are those of the environment (`http_proxy`, `https_proxy`, `no_proxy`), and none for this machine itself. What
has arrived is kept in the cache folder, so that a download that was cut goes on where it stopped.

By hand, because pooch begins a cut download anew and has no limit on bytes; requests would take over the proxies alone.
"""

import hashlib
import http.client
import queue
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nsh.errors import DownloadError
from nsh.system import folders
from nsh.system.loopback import is_loopback
from nsh.system.progress import Progress, no_progress

CACHE = folders.CACHE / "download"
"""The download stage keeps downloaded files here until it is complete."""

_ANSWER_SECONDS = 10.0  # until the server has answered, name look-up included
_SILENCE_SECONDS = 30.0  # between two blocks of an answer
_ATTEMPTS = 5
_BLOCK = 1 << 20


class _BrokenError(Exception):
    """The connection ended early or the server is busy: try again."""


def download(url: str, *, cache: Path, digest: str, limit: int, progress: Progress = no_progress) -> Path:
    """Fetch `url` into the folder `cache` and return the file, whose content has the digest.

    A file that is there already and has the digest is not fetched again.

    Args:
        url: http or https; the last part of its path names the file.
        cache: the folder; made if missing. While data are missing they lie in `<name>.partial`.
        digest: "sha256:<hex>" or "md5:<hex>"; a shortened hex (torchvision's file names carry 8 digits) is a prefix.
        limit: most bytes the file may have.
        progress: shows MiB.

    Raises:
        DownloadError: the address cannot be reached, is not there, sends too much, breaks off again and again, or
            sends other bytes than the digest's.
    """
    target = cache / Path(urlsplit(url).path).name
    if target.exists() and matches(target, digest):
        return target
    cache.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    resumed = partial.exists()
    _fetch(url, partial, limit=limit, progress=progress)
    if resumed and not matches(partial, digest):  # what was left may have been another file's beginning
        partial.unlink()
        _fetch(url, partial, limit=limit, progress=progress)
    if not matches(partial, digest):
        found = _digest(partial, digest)
        partial.unlink()
        raise DownloadError(f"{url} is not the file it should be (found {found}, allowed is {digest}): try again later")
    return partial.replace(target)


def matches(path: Path, digest: str) -> bool:
    """Whether the file's content has the digest ("<algorithm>:<hex or its beginning>")."""
    return _digest(path, digest).startswith(digest)


def _digest(path: Path, like: str) -> str:
    algorithm = like.partition(":")[0]
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _fetch(url: str, partial: Path, *, limit: int, progress: Progress) -> None:
    """Append to `partial` until it is complete; attempts that received data are not counted."""
    failures = 0
    while True:
        before = _size(partial)
        try:
            return _attempt(url, partial, limit=limit, progress=progress)
        except _BrokenError as error:
            failures = 1 if _size(partial) > before else failures + 1
            if failures >= _ATTEMPTS:
                raise DownloadError(
                    f"{url} breaks off at {_size(partial)} bytes ({error}): run the same command again to go on"
                ) from error
            time.sleep(0.2 * 2**failures)


def _attempt(url: str, partial: Path, *, limit: int, progress: Progress) -> None:
    offset = _size(partial)
    answer = _open(url, offset)
    if answer is None:  # the server has nothing beyond what we have
        return
    with answer:
        offset = _start(answer, offset)
        length = answer.headers.get("Content-Length")
        end = offset + int(length) if length else None
        if (end or 0) > limit:
            raise DownloadError(f"{url} has {end} bytes, allowed are {limit}: this is not the file that was expected")
        blocks = progress(_blocks(answer), desc=f"{partial.stem} (MiB)", total=_count(end, offset))
        with partial.open("r+b" if partial.exists() else "wb") as file:
            file.truncate(offset)
            file.seek(offset)
            for block in blocks:
                file.write(block)
                if file.tell() > limit:
                    raise DownloadError(f"{url} sends more than the {limit} bytes allowed")
    if end is not None and _size(partial) < end:
        raise _BrokenError(f"{end} were announced")


def _blocks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while block := answer.read(_BLOCK):
            yield block
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(_reason(error)) from error


def _start(answer: http.client.HTTPResponse, offset: int) -> int:
    """The offset of the response's bytes: a server without range requests sends the whole file."""
    if answer.status != http.client.PARTIAL_CONTENT:
        return 0
    start = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    if start is None or int(start[1]) != offset:
        raise DownloadError(f"the server sent another part than the one from byte {offset}: try again later")
    return offset


def _open(url: str, offset: int) -> http.client.HTTPResponse | None:
    request = urllib.request.Request(url, headers={"User-Agent": "nsh", "Accept-Encoding": "identity"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    try:
        return _answer(request)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None
        if error.code >= 500 or error.code == http.client.TOO_MANY_REQUESTS:
            raise _BrokenError(f"the server answers {error.code} {error.reason}") from error
        raise DownloadError(f"{url}: the server answers {error.code} {error.reason}") from error
    except (ConnectionResetError, http.client.HTTPException) as error:
        raise _BrokenError(_reason(error)) from error
    except OSError as error:
        raise DownloadError(f"{url} cannot be reached ({_reason(error)}){_advice(url)}") from error


def _answer(request: urllib.request.Request) -> http.client.HTTPResponse:
    """The response, with one deadline for name look-up, all addresses and reply; a socket's timeout covers one each."""
    box: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            # a fresh one: urlopen's own remembers the first call's proxies
            opener = urllib.request.build_opener(urllib.request.ProxyHandler(_proxies(request.full_url)))
            box.put(opener.open(request, timeout=_SILENCE_SECONDS))
        except Exception as error:
            box.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = box.get(timeout=_ANSWER_SECONDS)
    except queue.Empty:
        raise TimeoutError(f"no answer in {_ANSWER_SECONDS:.0f} seconds") from None
    if isinstance(answer, Exception):
        raise answer
    return answer  # type: ignore[no-any-return]


def _proxies(url: str) -> dict[str, str]:
    return {} if is_loopback(urlsplit(url).hostname) else urllib.request.getproxies()


def _advice(url: str) -> str:
    proxy = _proxies(url).get(urlsplit(url).scheme)
    if proxy is None:
        return ": check the network, or set http_proxy and https_proxy"
    return f" through the proxy {urlsplit(proxy).hostname or proxy}: check the network and the proxy's settings"


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner or type(inner).__name__)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _count(end: int | None, offset: int) -> int | None:
    return None if end is None else -(-(end - offset) // _BLOCK)
