"""The service's settings, checked before anything is opened. Knows nothing of HTTP."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from nsh.core.limits import MAX_PIXELS
from nsh.errors import ConfigError

MIB = 1024 * 1024
MIN_TOKEN = 16

_RANGES = {
    "threads": (1, 1024),
    "batch": (1, 1024),
    "max_body": (1, 1024 * MIB),
    "max_pixels": (1, MAX_PIXELS),
    "max_images": (1, 1024),
    "queue": (1, 100_000),
    "timeout": (0.1, 3600.0),
    "refresh": (0.05, 3600.0),
    "keep_alive": (1, 3600),
}
_HOST = re.compile(r"\*|(\*\.)?[A-Za-z0-9._-]+")


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """An encoder and the index of its codes, which answer nobody and are compared with those that do."""

    model: Path
    index: str | Path
    share: float = 0.1  # of the searches; 0..1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Paths, host names, threads, and the limits of requests.

    The memory of requests is at most `queue` x `max_body` for bodies, and `threads` + 1 times a few copies of
    `max_pixels` x 4 bytes for decoded images.
    """

    model: Path = Path()  # encoder.onnx
    index: str | Path = Path()  # folder of the index, or milvus://HOST:PORT/COLLECTION
    deployment: Path | None = None  # its current release gives model and index, and is followed
    shadow: Shadow | None = None  # a release that is compared
    images: Path | None = None  # root that the index's ids are relative to; None: no thumbnails
    token: str | None = field(default=None, repr=False)  # of those who may change items; None: nobody may
    device: str = "cpu"  # as nsh.serving.session.open_session takes it
    threads: int = 1  # cores to use
    batch: int = 8  # images that share one inference, at most
    max_body: int = 16 * MIB  # bytes of one request
    max_pixels: int = 25_000_000  # width x height of one image
    max_images: int = 16  # in one request
    queue: int = 64  # requests in progress or waiting; further ones get 503 with Retry-After
    timeout: float = 30.0  # seconds that one request may take, including its arrival
    keep_alive: int = 75  # seconds that a connection may be idle: longer than a load balancer's, mostly 60
    allowed_hosts: tuple[str, ...] = ()  # host names besides the service's own; see admission.Hosts
    refresh: float = 2.0  # seconds between two checks for a newer version of the index, or another release

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            ConfigError: names all that is wrong at once.
        """
        faults = [
            f"{name}: found {getattr(self, name)}, allowed are {low} to {high}"
            for name, (low, high) in _RANGES.items()
            if not low <= getattr(self, name) <= high
        ]
        faults += [
            f"allowed hosts: found {name!r}, allowed are images.example.org, *.example.org, * for any"
            for name in self.allowed_hosts
            if not _HOST.fullmatch(name)
        ]
        if self.images is not None and not self.images.is_dir():
            faults.append(f"images: there is no folder {self.images}")
        if self.token is not None and (len(self.token) < MIN_TOKEN or not self.token.isascii()):
            faults.append(f"token: at least {MIN_TOKEN} ASCII characters are needed")
        if self.shadow is not None and not 0 <= self.shadow.share <= 1:
            faults.append(f"shadow share: found {self.shadow.share}, allowed are 0 to 1")
        if faults:
            raise ConfigError("; ".join(faults))
