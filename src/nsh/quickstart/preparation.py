"""What `nsh quickstart` makes of a folder of photos: all that can be refused is refused here. Writes nothing."""

import os
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from nsh.config.applying import lay, read_committed, with_root
from nsh.config.params import Params, parse_params
from nsh.core.image_files import describe
from nsh.data.folder import find_images
from nsh.errors import ConfigError, DataError
from nsh.project.paths import Pair

PROFILE = Path("params/own-folder.yaml")


@dataclass(frozen=True)
class Plan:
    """What is to be made of a folder.

    Attributes:
        root: the photos, as DVC watches them: relative if below the project's folder, else absolute.
        exclude: globs of what is left out of it.
        params: the text of params.yaml.
        pair: the method and the bits of the encoder: the profile's first method at the most bits.
        photos: how many there are, and what was left out, for the reader.
    """

    root: Path
    exclude: list[str]
    params: str
    pair: Pair
    photos: str


def plan(photos: Path) -> Plan:
    """Look at a folder, and plan its search page.

    Raises:
        ConfigError: this is no project, params.yaml has changes of the user's own, or the profile has a mistake.
        DataError: there is no such folder, or it has too few images.
    """
    _check_project(photos)
    root = _watched(photos)
    text = with_root(lay(PROFILE, read_committed())[0], root)
    params = parse_params(text, source=f"{PROFILE} over params.yaml")
    if params.dataset.name != "folder":
        raise ConfigError(f"{PROFILE}: found dataset.name: {params.dataset.name}, folder is needed: set it again")
    found, ignored = find_images(root, exclude=params.dataset.exclude)
    pair = Pair(params.matrix.methods[0], max(params.matrix.bits))
    _check_enough(len(found), ignored, params, pair=pair)
    return Plan(root, params.dataset.exclude, text, pair, f"{len(found)} photos in {root}; {describe(ignored)}")


def _check_project(photos: Path) -> None:
    lacking = [name for name in ("dvc.yaml", "params.yaml", str(PROFILE)) if not Path(name).is_file()]
    if lacking:
        raise ConfigError(f"{', '.join(lacking)} is not here: run the command in the project's folder")
    lacking = [name for name in ("dvc", "torch", "onnxruntime") if find_spec(name) is None]
    if lacking:
        raise ConfigError(
            f"this command trains, and needs {', '.join(lacking)}: run `make setup`, then .venv/bin/nsh quickstart"
        )
    if Path().resolve().is_relative_to(photos.resolve()):
        raise DataError(f"{photos} holds this project itself: name a folder that holds photos alone")


def _watched(photos: Path) -> Path:
    """A path below the project's folder is relative, and stays true where the project is moved."""
    here, absolute = Path.cwd(), Path(os.path.abspath(photos))  # noqa: PTH100 - a link's own name is the user's
    return absolute.relative_to(here) if absolute.is_relative_to(here) else absolute


def _check_enough(found: int, ignored: Counter[str], params: Params, *, pair: Pair) -> None:
    batch = params.methods.model_dump()[pair.method].get("batch", 1)
    query, learned = params.split.query or 0, max(batch, pair.bits)
    if found < query + learned:
        raise DataError(
            f"found {found} images ({describe(ignored)}), at least {query + learned} are needed: {learned} to learn "
            f"from, and {query} that are only searched with (split.query in {PROFILE}): add images"
        )
