"""Where the images of a deployment's items are; kept in its folder for the next deployment."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from nsh.errors import ConfigError
from nsh.serving.inputs import find_images
from nsh.serving.sources import Images
from nsh.serving.sources.addresses import is_address, without_secrets
from nsh.serving.sources.archives import is_archive
from nsh.system.files import read_json, write_json
from nsh.system.progress import Progress, no_progress

FILE = "images.json"


@dataclass(frozen=True)
class ImagePlaces:
    """Files, folders, addresses and archives, as `nsh encode` takes them."""

    images: Sequence[str]
    root: str | None
    exclude: Sequence[str]

    @classmethod
    def keep(cls, folder: Path, images: Sequence[str], *, root: str | None, exclude: Sequence[str]) -> Self:
        """Write the places into a deployment's folder; without `images`, read what was written before.

        Raises:
            ConfigError: nothing was written before, or an address holds credentials.
        """
        if not images:
            if not (folder / FILE).exists():
                raise ConfigError(f"{folder} does not know where the images are: give --images")
            return cls(**read_json(folder / FILE))
        root = root or _working_folder(images)
        places = cls([_absolute(place) for place in images], None if root is None else _absolute(root), list(exclude))
        write_json(folder / FILE, asdict(places))
        return places

    def find(self, *, progress: Progress = no_progress) -> Images:
        """The images; errors are those of `nsh.serving.inputs.find_images`."""
        return find_images(self.images, root=self.root, exclude=self.exclude, progress=progress)


def _working_folder(images: Sequence[str]) -> str | None:
    """The working folder, if ids are relative to it, so that they are the same from any other."""
    files = [place for place in images if not (is_address(place) or is_archive(place))]
    one_folder = len(images) == 1 and Path(images[0]).is_dir()
    return "." if files and not one_folder else None


def _absolute(place: str) -> str:
    """A path that means the same from any folder; an address as it is."""
    if not is_address(place):
        return str(Path(place).absolute())
    if without_secrets(place) != place:
        raise ConfigError(
            f"{without_secrets(place)} was given with credentials, and would be kept: put them into the environment"
        )
    return place
