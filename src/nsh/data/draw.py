"""Draws train, gallery and query with a seed, uniformly and without leaks. Knows no files and no model.

The protocol is that of the hashing literature's full CIFAR-10: queries come from the official test part, the gallery
from the official training part, and the training images out of the gallery, of which a data set's lists may keep some
from training. Without official parts the queries are drawn from all images and the gallery from the rest. The gallery
is drawn uniformly over images; queries and training images are too, or evenly over classes (`nsh.data.take`).
"""

from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from nsh.data.imageset import ImageSet
from nsh.data.split import Rows, Split
from nsh.data.take import Positions, Take, take_first
from nsh.errors import ConfigError, DataError, UnreadableImage
from nsh.system.progress import Progress, no_progress
from nsh.system.threads import map_in_threads

_CHUNK = 64  # images read in one go
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many images each part is to have; None means all there are."""

    train: int | None
    gallery: int | None
    query: int | None


@dataclass(frozen=True, kw_only=True)
class _Inspected:
    """The result of reading one image: the digest of its content, or the reason why there is none."""

    sha256: str | None
    error: str | None


def draw(
    images: ImageSet,
    sizes: Sizes,
    *,
    seed: int,
    take: Take = take_first,
    max_bad_share: float = 0.0,
    threads: int = 1,
    progress: Progress = no_progress,
) -> Split:
    """Read every image once and draw query, gallery and train.

    A larger size keeps the images of a smaller one (a part is taken from one seeded permutation), and a part's draw
    does not depend on the size of the parts drawn after it. The order is query, gallery, train.

    Args:
        images: the data set.
        sizes: see `Sizes`.
        seed: of the three draws.
        take: which of the shuffled images are queries, or learn; a size of None takes all.
        max_bad_share: most unreadable images, as a share of all; they are left out of every part.
        threads: of decoding; no result depends on it.
        progress: shows images.

    Raises:
        ConfigError: the sizes, or `take`, do not fit the data set.
        DataError: there is no image, or too many are unreadable.
    """
    official = "test" in images.parts
    every = np.arange(len(images.ids))
    _check_sizes(sizes, *_count_pools(images, every), official=official)
    _draw_parts(images, every, every.astype(str), sizes=sizes, take=take, seed=seed)  # fails before hours of reading
    inspected = _inspect(images, threads=threads, progress=progress)
    unreadable = [(name, one.error) for name, one in zip(images.ids, inspected, strict=True) if one.error is not None]
    _check_bad_share(unreadable, len(images.ids), max_bad_share)
    readable = np.array([one.error is None for one in inspected])
    digests = np.array([one.sha256 or "" for one in inspected])
    _check_sizes(sizes, *_count_pools(images, every[readable]), official=official)
    query, gallery, train, dropped = _draw_parts(images, every[readable], digests, sizes=sizes, take=take, seed=seed)
    parts = {"train": train, "query": query, "gallery": gallery}
    return Split(
        data_set=images.name,
        classes=images.classes,
        seed=seed,
        parts={part: _rows(images, digests, positions) for part, positions in parts.items()},
        unreadable=unreadable,
        duplicates_dropped=dropped,
    )


def _draw_parts(
    images: ImageSet, readable: Positions, digests: NDArray[np.str_], *, sizes: Sizes, take: Take, seed: int
) -> tuple[Positions, Positions, Positions, int]:
    """Query, gallery and train, and how many duplicates of queries were left out of the gallery."""
    query_random, gallery_random, train_random = np.random.default_rng(seed).spawn(3)
    query_pool, gallery_pool = _pools(images, readable)
    query = query_random.permutation(query_pool)
    query = query if sizes.query is None else take(images, query, sizes.query)
    rest = np.setdiff1d(gallery_pool, query)
    candidates = rest[~np.isin(digests[rest], digests[query])]
    dropped = len(rest) - len(candidates)
    _check_gallery(sizes, len(candidates), dropped=dropped)
    gallery = gallery_random.permutation(candidates)[: sizes.gallery]
    train = train_random.permutation(gallery[np.array(images.parts)[gallery] != "gallery"])
    _check_train(sizes, len(train))
    train = train if sizes.train is None else take(images, train, sizes.train)
    return query, gallery, train, dropped


def _pools(images: ImageSet, positions: Positions) -> tuple[Positions, Positions]:
    """The images that queries and gallery may be drawn from; the same images if there are no official parts."""
    parts = np.array(images.parts)[positions]
    if "test" not in images.parts:
        return positions, positions
    return positions[parts == "test"], positions[parts != "test"]


def _count_pools(images: ImageSet, positions: Positions) -> tuple[int, int]:
    query_pool, gallery_pool = _pools(images, positions)
    return len(query_pool), len(gallery_pool)


def _check_sizes(sizes: Sizes, query_pool: int, gallery_pool: int, *, official: bool) -> None:
    if sizes.query is None and not official:
        raise ConfigError("split.query is null (all of the test part), but the images have no test part: give a number")
    asked = query_pool if sizes.query is None else sizes.query
    if not query_pool or asked > query_pool:
        where = "the test part" if official else "the data set"
        raise ConfigError(f"split.query asks for {asked} images, {where} has {query_pool} that can be read: lower it")
    _check_gallery(sizes, gallery_pool - (0 if official else asked), dropped=0)


def _check_gallery(sizes: Sizes, available: int, *, dropped: int) -> None:
    twins = f" ({dropped} more have the same content as a query)" if dropped else ""
    gallery = available if sizes.gallery is None else sizes.gallery
    if available < 1 or gallery > available:
        raise ConfigError(
            f"split.gallery asks for {sizes.gallery or 'all'} images, {max(available, 0)} are left beside the queries"
            f"{twins}: lower split.gallery or split.query"
        )
    if sizes.train is not None and sizes.train > gallery:
        raise ConfigError(
            f"split.train asks for {sizes.train} images, but they are drawn out of the gallery, which has {gallery}"
            f"{twins}: lower split.train or raise split.gallery"
        )


def _check_train(sizes: Sizes, available: int) -> None:
    if not available or (sizes.train or 0) > available:
        raise ConfigError(
            f"split.train asks for {sizes.train or 'all'} images, and the lists name {available} of this gallery for "
            "training: lower split.train or raise split.gallery"
        )


def _check_bad_share(unreadable: list[tuple[str, str]], images: int, max_bad_share: float) -> None:
    if not images:
        raise DataError("the data set has no image")
    if len(unreadable) > max_bad_share * images or len(unreadable) == images:
        shown = "; ".join(f"{name!r}: {error}" for name, error in unreadable[:_SHOWN])
        raise DataError(
            f"{len(unreadable)} of {images} images cannot be read, allowed is a share of {max_bad_share} "
            f"(split.max_bad_share): mend or remove them, or raise the share. The first: {shown}"
        )


def _inspect(images: ImageSet, *, threads: int, progress: Progress) -> list[_Inspected]:
    chunks = [images.ids[start : start + _CHUNK] for start in range(0, len(images.ids), _CHUNK)]

    def inspect(chunk: list[str]) -> list[_Inspected]:
        return [_inspect_one(images, image_id) for image_id in chunk]

    with closing(map_in_threads(inspect, chunks, threads=threads)) as results:
        return list(progress(chain.from_iterable(results), desc="reading images", total=len(images.ids)))


def _inspect_one(images: ImageSet, image_id: str) -> _Inspected:
    try:
        return _Inspected(sha256=images.inspect(image_id), error=None)
    except UnreadableImage as error:
        return _Inspected(sha256=None, error=str(error))


def _rows(images: ImageSet, digests: NDArray[np.str_], positions: Positions) -> Rows:
    labels = images.labels
    return Rows(
        ids=[images.ids[position] for position in positions],
        labels=None if labels is None else [labels[position] for position in positions],
        sha256=[str(digests[position]) for position in positions],
    )
