"""Describes the classes of a data set, and checks that labels can separate right results from wrong ones."""

from collections import Counter
from collections.abc import Sequence

from nsh.data.imageset import ImageSet
from nsh.errors import DataError

_SHOWN = 12


def count_classes(images: ImageSet) -> dict[str, int]:
    """How many images each class has, in the classes' order; of classes without any, 0. Empty without labels."""
    counts = Counter(row for rows in images.labels or () for row in rows)
    return {name: counts[row] for row, name in enumerate(images.classes or ())}


def check_classes(images: ImageSet) -> None:
    """Check that labels, if there are any, distinguish images.

    Raises:
        DataError: all images are of one class, so that any result would be right: mAP is 1 for any codes.
    """
    there = [name for name, count in count_classes(images).items() if count]
    if images.labels is None or len(there) > 1:
        return
    raise DataError(
        f"all {len(images.ids)} images are of one class, {', '.join(map(repr, there)) or 'none'}, so that mAP would be "
        f"1 for any codes{_below(images.ids, there)}: set dataset.root to the folder whose folders are the classes, "
        "or dataset.labels: none"
    )


def describe_classes(images: ImageSet) -> str:
    """The classes and how many images each has, the most frequent first; those that differ only in case are named."""
    if images.labels is None:
        return f"{len(images.ids)} images without labels"
    counts = sorted(count_classes(images).items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {count}" for name, count in counts[:_SHOWN])
    more = f" and {len(counts) - _SHOWN} more, down to {counts[-1][1]} images" if len(counts) > _SHOWN else ""
    return f"{len(images.ids)} images of {len(counts)} classes: {shown}{more}{_alike([name for name, _ in counts])}"


def _below(ids: Sequence[str], there: Sequence[str]) -> str:
    """The folders one level below the class, which may be the classes that were meant."""
    below = [path.partition(f"{name}/")[2].split("/") for path in ids for name in there]
    names = sorted({parts[0] for parts in below if len(parts) > 1})
    if len(names) < 2:
        return ""
    return f" (below it lie {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''})"


def _alike(names: Sequence[str]) -> str:
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(name.casefold(), []).append(name)
    alike = [" and ".join(group) for group in groups.values() if len(group) > 1]
    return f"; only case tells apart {', '.join(alike)}" if alike else ""
