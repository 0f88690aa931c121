"""Draws the retrieval grid: random queries, and the nearest gallery images beside each.

A right answer has a blue frame, a wrong one an orange, crossed frame, visible without colours too; without labels
frames are grey. Reads no files and does no search: a callable gives the images.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from PIL import Image

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RIGHT, WRONG, NEUTRAL = "#0072B2", "#E66100", "#999999"
THUMBNAIL = 72  # pixels a side
GAP = 17  # pixels between two images, for the distance
MARGIN, HEAD = 100, 56  # pixels for the names and for the title


@dataclass(frozen=True)
class Side:
    """Query or gallery images."""

    ids: Sequence[str]
    labels: NDArray[np.bool_] | None  # [n, classes]


@dataclass(frozen=True)
class Line:
    """One query and its nearest gallery images, nearest first."""

    query: int  # row in the query images
    found: tuple[int, ...]  # rows in the gallery images
    distances: tuple[int, ...]


def read_lines(table: Mapping[str, NDArray[np.float64]]) -> list[Line]:
    """The lines of a table from `nsh.core.metrics.find_examples`, one for each query."""
    rows = zip(*(table[name].astype(int).tolist() for name in ("query", "gallery", "distance")), strict=True)
    return [_make_line(query, group) for query, group in groupby(rows, key=lambda row: row[0])]


def _make_line(query: int, rows: Iterable[tuple[int, int, int]]) -> Line:
    _, found, distances = zip(*rows, strict=True)
    return Line(query, found, distances)


def describe_grid(method: str, bits: int, *, classes: Sequence[str] | None) -> str:
    """The title above a grid of a pair's codes."""
    title = f"{method}, {bits} bits: queries drawn at random, the ten nearest images, their Hamming distances"
    return f"{title}\nblue: of the query's class; orange, crossed: of another" if classes else title


def draw_grid(
    query: Side,
    gallery: Side,
    *,
    lines: Sequence[Line],
    image: Callable[[str], Image.Image],
    classes: Sequence[str] | None,
    title: str,
) -> Figure:
    """Draw queries and the gallery images nearest to each.

    Args:
        query: the query images.
        gallery: the gallery images.
        lines: rows of both, at least one.
        image: from an id to its image.
        classes: names of the labels, None without labels.
        title: above the grid.
    """
    step, shift = THUMBNAIL + GAP, THUMBNAIL + 3 * GAP
    width, height = shift + len(lines[0].found) * step, len(lines) * step
    with mpl.rc_context({"font.size": 9}):
        figure, axes = _open_figure(width, height)
        figure.text(0.5, 1 - 20 / (height + HEAD), title, ha="center", va="center", fontsize=11)
        for number, line in enumerate(lines):
            row, top = line.query, number * step
            _show(axes, image(query.ids[row]), left=0, top=top)
            axes.text(-8, top + THUMBNAIL / 2, _name(query, row, classes), ha="right", va="center")
            for place, found in enumerate(line.found):
                left = shift + place * step
                _show(axes, image(gallery.ids[found]), left=left, top=top)
                _frame(axes, _is_right(query, row, gallery, found), left=left, top=top)
                axes.text(left + THUMBNAIL / 2, top + THUMBNAIL + 1.5, f"{line.distances[place]}", **_SMALL)
        return figure


def _open_figure(width: int, height: int) -> "tuple[Figure, Axes]":
    """A figure with space for names on the left and a title above, and axes in pixels from the top left."""
    whole = (width + MARGIN, height + HEAD)
    figure = Figure(figsize=(whole[0] / 100, whole[1] / 100))
    axes = figure.add_axes((MARGIN / whole[0], 0, width / whole[0], height / whole[1]))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


_SMALL: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 7.5, "color": "#444444"}


def _show(axes: "Axes", image: Image.Image, *, left: int, top: int) -> None:
    """Show a thumbnail, cropped to the central square; small images with visible pixels."""
    side = min(image.size)
    box = ((image.width - side) // 2, (image.height - side) // 2)
    square = image.crop((*box, box[0] + side, box[1] + side))
    small = square.resize(
        (2 * THUMBNAIL, 2 * THUMBNAIL), Image.Resampling.NEAREST if side < THUMBNAIL else Image.Resampling.LANCZOS
    )
    axes.imshow(
        np.asarray(small.convert("RGB")), extent=(left, left + THUMBNAIL, top + THUMBNAIL, top), interpolation="nearest"
    )


def _frame(axes: "Axes", right: bool | None, *, left: int, top: int) -> None:
    colour = NEUTRAL if right is None else RIGHT if right else WRONG
    axes.add_patch(Rectangle((left, top), THUMBNAIL, THUMBNAIL, fill=False, edgecolor=colour, linewidth=2.2))
    if right is False:
        far, near, side = left + THUMBNAIL - 4, top + 4, THUMBNAIL * 0.18
        for start, end in ((near, near + side), (near + side, near)):
            axes.plot([far - side, far], [start, end], color=colour, linewidth=2.2)


def _is_right(query: Side, row: int, gallery: Side, found: int) -> bool | None:
    if query.labels is None or gallery.labels is None:
        return None
    return bool((query.labels[row] & gallery.labels[found]).any())


def _name(query: Side, row: int, classes: Sequence[str] | None) -> str:
    if query.labels is None or classes is None:
        return "query"
    return "\n".join(classes[label] for label in np.flatnonzero(query.labels[row])[:4])
