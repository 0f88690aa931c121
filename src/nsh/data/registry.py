"""The data sets of params.yaml by name: how each is fetched and opened. Knows no model and no split.

To add one: a module with `fetch` and `open_images`, or, where files name images and labels, with a `ListedSet`; and one
line in `DATA_SETS`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from nsh.core.tables import is_table
from nsh.data import cifar10, coco, fashion_mnist, folder, nuswide
from nsh.data.imageset import ImageSet
from nsh.errors import ConfigError
from nsh.system.fetch import CACHE
from nsh.system.progress import Progress, no_progress


class DataSet(Protocol):
    """One data set, a module or an object. It is kept in the folder `raw`, which is its own and has its name."""

    @property
    def fetch(self) -> Callable[..., None]:
        """Fetch it into `raw`, completely or not at all; gets the keywords of `nsh.data.registry.fetch`."""

    @property
    def open_images(self) -> Callable[..., ImageSet]:
        """Open what is in `raw`; gets the keywords of `nsh.data.registry.open_images`."""


DATA_SETS: dict[str, DataSet] = {
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
    "nuswide": nuswide.SET,
    "coco": coco.SET,
    "folder": folder,
}
"""By the name in params.yaml, which is checked by these keys."""


class Choice(Protocol):
    """Which data set is opened: params.yaml's block `dataset`."""

    @property
    def name(self) -> str:
        """One of `DATA_SETS`."""

    @property
    def root(self) -> Path:
        """The root that was given to `fetch`."""

    @property
    def labels(self) -> str:
        """As `open_images` takes them."""


def fetch(
    name: str,
    *,
    raw: Path,
    root: Path,
    exclude: Sequence[str] = (),
    labels: str = "none",
    progress: Progress = no_progress,
    say: Callable[[str], None] = print,
    cache: Path = CACHE,
) -> None:
    """Fetch the data set `name` into the folder `raw / name`, completely or not at all.

    Args:
        name: one of `DATA_SETS`.
        raw: the folder of all published data, data/raw; the data set's own is `raw / name` and is replaced.
        root: the user's own images (folder, or cifar10 as a tree), or files fetched by hand, which the larger sets
            need (nuswide, coco).
        exclude: globs of what is left out of `root`, see `nsh.core.image_files.Exclude`.
        labels: as `open_images` takes them; a folder's are read here if a file has them.
        progress: shows what arrives.
        say: gets one line for each source tried.
        cache: where a cut download is kept.

    Raises:
        ConfigError: no such data set, or a glob is none.
        DataError: nothing usable in `root`, or (DownloadError) nothing could be fetched.
    """
    data_set = _find(name)
    given = {"root": root, "exclude": exclude, "labels": labels}
    data_set.fetch(raw=raw / name, **given, progress=progress, say=say, cache=cache)


def open_images(name: str, *, raw: Path, root: Path, labels: str) -> ImageSet:
    """Open the data set that `fetch` wrote.

    Args:
        name: one of `DATA_SETS`.
        raw: the folder that was given to `fetch`.
        root: the root that was given to `fetch`.
        labels: "folder": the classes of the data set, which of a tree are its first folder level; "none": as if
            nothing were labelled, whatever the data set; of a folder also a file below `root`, `nsh.data.label_file`.

    Raises:
        ConfigError: no such data set or kind of labels.
        DataError: it was not fetched, is damaged, or is not labelled though labels are asked for.
    """
    if labels not in ("folder", "none") and not (name == "folder" and is_table(labels)):
        raise ConfigError(
            f"dataset.labels: found {labels!r}, allowed are folder and none; of name: folder also a file (.csv, .jsonl)"
        )
    images = _find(name).open_images(raw=raw / name, root=root, labels=labels)
    if labels == "none":
        images.classes, images.labels = None, None
    return images


def open_chosen(choice: Choice, *, raw: Path) -> ImageSet:
    """Open the data set that params.yaml chooses; `raw` and errors are those of `open_images`."""
    return open_images(choice.name, raw=raw, root=choice.root, labels=choice.labels)


def _find(name: str) -> DataSet:
    if name not in DATA_SETS:
        raise ConfigError(f"dataset.name: found {name!r}, allowed are {', '.join(DATA_SETS)}")
    return DATA_SETS[name]
