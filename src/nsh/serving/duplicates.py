"""Groups of images with nearly equal codes, and an HTML report of them.

Two images belong to one group if a chain of images joins them, each within the radius of the next. So every image is in
one group at most, and the ends of a long chain may be further apart than the radius. Knows no encoder and no index.
"""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.core.hamming import fill_distances, to_words
from nsh.core.limits import MAX_PIXELS
from nsh.errors import CodesError
from nsh.serving.html_page import draw_figure, load_file, render_page
from nsh.system.files import write_text
from nsh.system.progress import Progress, no_progress

SHOWN_GROUPS = 200
SHOWN_IMAGES = 24
"""Of each group; a page of thousands of images is of no use."""

BITS_PER_RADIUS = 16
"""The default radius is one bit in this many. 98 % of JPEGs saved again at quality 50, and 99 % of those halved in
size, are within it, and hardly two different photographs are (`benchmarks/resaving.py`)."""


class Group(NamedTuple):
    """Similar images, ordered by (distance, row)."""

    rows: list[int]
    distances: list[int]  # from each image to the group's lowest row, in bits


def default_radius(bits: int) -> int:
    """Bits by which copies of one image, saved again or resized, differ at most, for codes of `bits` bits."""
    return bits // BITS_PER_RADIUS


def find_groups(codes: NDArray[np.uint8], *, radius: int, progress: Progress = no_progress) -> list[Group]:
    """Find all groups of two or more images, ordered by their lowest row.

    Every pair is compared once: n^2 / 2 distances; a core computes about a billion a second. Memory is a few bytes an
    image, whatever the number of pairs.

    Args:
        codes: uint8 [n, bytes], packed.
        radius: bits, >= 0; 0 groups equal codes.
        progress: counts images.

    Raises:
        CodesError: the radius is negative.
    """
    if radius < 0:
        raise CodesError(f"found a radius of {radius}: 0 or more is allowed")
    words, alone = to_words(codes), np.ones(len(codes), np.bool_)
    groups = []
    for first in progress(range(len(codes)), desc="compare", total=len(codes)):
        if alone[first]:
            alone[first] = False
            rows = _flood(words, alone, first, radius=radius)
            if len(rows) > 1:
                groups.append(_ordered(words, rows))
    return groups


def _flood(words: NDArray[np.uint64], alone: NDArray[np.bool_], first: int, *, radius: int) -> list[int]:
    """The rows that chains join to `first`; all are above it, because lower rows already have their groups."""
    found = [first]
    for row in found:  # grows while the loop runs
        near = np.flatnonzero((_distances(words, row, first + 1) <= radius) & alone[first + 1 :]) + first + 1
        alone[near] = False
        found.extend(near.tolist())
    return found


def _distances(words: NDArray[np.uint64], row: int, start: int) -> NDArray[np.uint16]:
    table = np.empty((1, words.shape[1] - start), np.uint16)
    fill_distances(words[:, row : row + 1], words[:, start:], out=table)
    distances: NDArray[np.uint16] = table[0]
    return distances


def _ordered(words: NDArray[np.uint64], rows: list[int]) -> Group:
    rows = sorted(rows)
    distances = _distances(words[:, rows], 0, 0)
    order = np.argsort(distances, kind="stable")
    return Group([rows[place] for place in order], distances[order].tolist())


def write_report(
    path: Path,
    groups: Sequence[Group],
    *,
    root: Path,
    ids: Sequence[str],
    radius: int,
    max_pixels: int = MAX_PIXELS,
    progress: Progress = no_progress,
) -> None:
    """Write one self-contained HTML file: thumbnails, names and distances, the largest groups first.

    Args:
        path: the file; replaced atomically.
        groups: from `find_groups`.
        root: `root / ids[row]` is the image of a row.
        ids: names to show.
        radius: the radius of the groups, in bits.
        max_pixels: width x height of an image that is shown.
        progress: counts groups.
    """
    shown = sorted(groups, key=lambda group: -len(group.rows))[:SHOWN_GROUPS]
    sections = [
        _section(number, group, root=root, ids=ids, max_pixels=max_pixels)
        for number, group in enumerate(progress(shown, desc="report", total=len(shown)), 1)
    ]
    count = sum(len(group.rows) for group in groups)
    summary = f"{len(groups)} groups hold {count} of {len(ids)} images; radius {radius} bits."
    if len(shown) < len(groups):
        summary += f" The {len(shown)} largest are shown."
    summary += " The number before a name is its distance in bits to the first image of its group."
    body = "\n".join(sections) or "<p>No two images are that close.</p>"
    write_text(path, render_page("Duplicates", f"<p>{summary}</p>\n{body}"))


def _section(number: int, group: Group, *, root: Path, ids: Sequence[str], max_pixels: int) -> str:
    members = list(zip(group.rows, group.distances, strict=True))
    figures = "\n".join(
        draw_figure(load_file(root / ids[row], max_pixels=max_pixels), f"<b>{distance}</b> {html.escape(ids[row])}")
        for row, distance in members[:SHOWN_IMAGES]
    )
    more = len(members) - SHOWN_IMAGES
    rest = f"\n<p>and {more} more</p>" if more > 0 else ""
    return f"<section><h2>Group {number}: {len(members)} images</h2>\n<div>\n{figures}\n</div>{rest}</section>"
