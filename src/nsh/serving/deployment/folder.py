"""The folder of a deployment: its releases, and the link that says which one is current. Knows no encoder and no image.

    current -> releases/<release>   the release that services use; moving this link is the switch
    releases/<release>/             named by the first 12 digits of the encoder's identity and a number
        encoder.onnx
        index/
        matches/<other>.npz         which state of another release's index this index agrees with
    codes/<identity>/               codes of the images (`nsh.core.manifest`): a deployment that was killed goes on here
    images.json                     where the images of the items are
    lock                            locked by the process that deploys

A release is complete or absent. One process changes the folder at a time; any number read it.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nsh.errors import ConfigError
from nsh.serving.index.succession import has_address
from nsh.system.files import atomic_link

CURRENT, RELEASES, CODES, IMAGES, LOCK = "current", "releases", "codes", "images.json", "lock"
INDEX = "index"
_DIGITS = 12  # of an identity, in names


@dataclass(frozen=True)
class Release:
    """An encoder and the index of its codes."""

    folder: Path

    @property
    def name(self) -> str:
        """Its name in the deployment."""
        return self.folder.name

    @property
    def model(self) -> Path:
        """The encoder's file."""
        return self.folder / "encoder.onnx"

    @property
    def index(self) -> Path:
        """The folder of the index."""
        return self.folder / INDEX

    def matches(self, other: "Release") -> Path:
        """The file that says which state of the other release's index this one agrees with."""
        return self.folder / "matches" / f"{other.name}.npz"


class Deployment:
    """The folder of a deployment, existing or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    @property
    def current(self) -> Release | None:
        """The release that services use; None before the first deployment."""
        link = self.folder / CURRENT
        return Release(link.resolve()) if link.is_symlink() else None

    @property
    def address(self) -> Path:
        """The index of whichever release is current."""
        return self.folder / CURRENT / INDEX

    def releases(self) -> list[Release]:
        """All releases, by name."""
        root = self.folder / RELEASES
        return [Release(path) for path in sorted(root.glob("[!.]*"))]

    def next_release(self, identity: str) -> Release:
        """A release that does not exist yet, for an encoder of this identity."""
        numbers = [int(release.name.rpartition("-")[2]) for release in self.releases()]
        name = f"{identity[:_DIGITS]}-{max(numbers, default=0) + 1}"
        return Release((self.folder / RELEASES) / name)

    def codes(self, identity: str) -> Path:
        """The folder of the codes of an encoder."""
        return self.folder / CODES / identity[:_DIGITS]

    def former(self) -> Release:
        """The release that was current before.

        Raises:
            ConfigError: there is none.
        """
        current = self.current
        former = [r for r in self.kept() if r != current and has_address(r.index)]
        if not former:
            raise ConfigError(f"{self.folder} has no former release: deploy an encoder with `nsh deploy MODEL`")
        return former[0]

    def switch(self, to: Release) -> None:
        """Make a release the current one."""
        atomic_link(self.folder / CURRENT, f"{RELEASES}/{to.name}")

    def prune(self) -> None:
        """Delete what neither is current nor agrees with the current release."""
        kept = self.kept()
        for release in self.releases():
            if release not in kept:
                release.folder.rename(release.folder.with_name(f".{release.name}.former"))  # complete or absent
        names = {release.name.rpartition("-")[0] for release in kept}
        codes = [path for path in (self.folder / CODES).glob("*") if path.name not in names]
        for path in [*(self.folder / RELEASES).glob(".*"), *codes]:
            shutil.rmtree(path, ignore_errors=True)

    def kept(self) -> list[Release]:
        """The current release, and those that agree with it: the former one, and those that were prepared."""
        current = self.current
        return [r for r in self.releases() if r == current or (current and r.matches(current).exists())]

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Be the one process that changes the folder, which is made if it is missing.

        Raises:
            ConfigError: another process changes it.
        """
        (self.folder / RELEASES).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"another process deploys to {self.folder}: wait until it has finished") from None
            yield
        finally:
            os.close(descriptor)


def current_release(folder: Path) -> Release:
    """The current release of a deployment.

    Raises:
        ConfigError: there is none.
    """
    release = Deployment(folder).current
    if release is None:
        raise ConfigError(f"{folder} has no release: make one with `nsh deploy MODEL --to {folder} --images PHOTOS`")
    return release
