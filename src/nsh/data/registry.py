"""The data sets of params.yaml by name: how each is fetched and opened. Knows no model and no split.

To add one: a module with `fetch` and `open_images`, and its two lines here; or, where files name images and labels, a
module with a `ListedSet`, and its one line.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from nsh.data import cifar10, coco, fashion_mnist, folder, listed, nuswide
from nsh.data.imageset import ImageSet
from nsh.data.inventory import is_inventory
from nsh.errors import ConfigError
from nsh.system.fetch import CACHE
from nsh.system.progress import Progress, no_progress

_LISTED = {data_set.name: data_set for data_set in (nuswide.SET, coco.SET)}
NAMES = (fashion_mnist.NAME, cifar10.NAME, *_LISTED, folder.NAME)


def fetch(
    name: str,
    *,
    raw: Path,
    root: Path,
    exclude: Sequence[str] = (),
    progress: Progress = no_progress,
    say: Callable[[str], None] = print,
    cache: Path = CACHE,
) -> None:
    """Bring the data set `name` into the folder `raw / name`, whole or not at all.

    Args:
        name: one of `NAMES`.
        raw: the folder of all published data, data/raw; the data set's own is `raw / name` and is replaced.
        root: the user's own images (folder, or cifar10 as a tree), or files fetched by hand, which the larger sets
            need (nuswide, coco).
        exclude: globs of what is left out of `root`, see `nsh.core.image_files.Exclude`.
        progress: shows what arrives.
        say: gets one line for each source tried.
        cache: where a cut download is kept.

    Raises:
        ConfigError: no such data set, or a glob is none.
        DataError: nothing usable in `root`, or (DownloadError) nothing could be fetched.
    """
    if name == fashion_mnist.NAME:
        fashion_mnist.fetch(raw=raw / name, root=root, cache=cache, progress=progress, say=say)
    elif name == cifar10.NAME:
        cifar10.fetch(raw=raw / name, root=root, exclude=exclude, cache=cache, progress=progress, say=say)
    elif name == folder.NAME:
        folder.fetch(raw=raw / name, root=root, exclude=exclude, progress=progress, say=say)
    elif name in _LISTED:
        listed.fetch(_LISTED[name], raw=raw / name, root=root, exclude=exclude, progress=progress, say=say)
    else:
        raise _unknown(name)


def open_images(name: str, *, raw: Path, root: Path, labels: str) -> ImageSet:
    """Open what `fetch` brought.

    Args:
        name: one of `NAMES`.
        raw: the folder that was given to `fetch`.
        root: the root that was given to `fetch`.
        labels: "folder": the classes of the data set, which of a tree are its first folder level; "none": as if
            nothing were labelled, whatever the data set.

    Raises:
        ConfigError: no such data set or kind of labels.
        DataError: it was not fetched, is damaged, or is not labelled though labels are asked for.
    """
    if labels not in ("folder", "none"):
        raise ConfigError(f"dataset.labels: found {labels!r}, allowed are folder and none")
    if name in _LISTED:
        return listed.open_images(_LISTED[name], raw=raw / name, root=root, labels=labels)
    if name == folder.NAME:
        return folder.open_images(name, raw=raw / name, root=root, labels=labels)
    if name == cifar10.NAME and is_inventory(raw / name):
        return folder.open_images(name, raw=raw / name, root=root, labels=labels)
    if name not in NAMES:
        raise _unknown(name)
    images = (
        fashion_mnist.open_images(raw=raw / name) if name == fashion_mnist.NAME else cifar10.open_images(raw=raw / name)
    )
    if labels == "none":
        images.classes, images.labels = None, None
    return images


def _unknown(name: str) -> ConfigError:
    return ConfigError(f"dataset.name: found {name!r}, allowed are {', '.join(NAMES)}")
