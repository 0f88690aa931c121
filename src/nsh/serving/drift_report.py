"""An HTML report of a drift comparison: the figures, two charts, and the most unusual images. Decides nothing."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nsh.core.drift import FALSE_ALARMS, Drift, standardised
from nsh.core.limits import MAX_PIXELS
from nsh.core.reference import EMPTY_RADIUS, ReferenceProfile, Tally
from nsh.serving.html_page import COLOURS, draw_bars, draw_figure, load_file, render_page
from nsh.system.files import write_text

SHOWN = 24
"""Images in the report, at most."""

_SERIES = ("reference", "recent")


class Unusual(NamedTuple):
    """An image that is far from all anchors."""

    path: Path
    name: str
    distance: int  # bits to the nearest anchor


def describe(drift: Drift) -> str:
    """The verdict in one sentence.

    Examples:
        >>> describe(Drift(images=200, bits=1.1, bits_p=0.3, distance=0.5, distance_p=0.6))
        '200 images: no drift found (p = 0.6; bits 1.10 of 1 expected, distances +0.5 standard errors)'
    """
    verdict = "drift" if drift.alarm else "no drift found"
    return (
        f"{drift.images} images: {verdict} (p = {drift.p_value:.2g}; bits {drift.bits:.2f} of 1 expected, "
        f"distances {drift.distance:+.1f} standard errors)"
    )


def write_report(
    path: Path,
    drift: Drift,
    *,
    recent: Tally,
    reference: ReferenceProfile,
    source: str,
    unusual: Sequence[Unusual] = (),
    max_pixels: int = MAX_PIXELS,
) -> None:
    """Write one self-contained HTML file.

    Args:
        path: the file; replaced atomically.
        drift: of `recent` and `reference`.
        recent: counts of the recent codes.
        reference: the encoder's.
        source: where the recent codes come from.
        unusual: images to show, the most unusual first.
        max_pixels: width x height of an image that is shown.
    """
    held_out = reference.held_out
    shares = [counts.nearest / counts.images for counts in (held_out, recent)]
    shown = max(int(np.flatnonzero(counts)[-1]) for counts in shares) + 1
    parts = [
        f"<p><b>{html.escape(source)}: {describe(drift)}.</b> Without any change, an alarm is raised by {FALSE_ALARMS} "
        "of all comparisons.</p>",
        _table(recent, held_out),
        "<h2>Share of ones of each bit</h2>",
        draw_bars(dict(zip(_SERIES, (held_out.rates, recent.rates), strict=True))),
        f"<p>Most changed: {_most_changed(recent, reference)}.</p>",
        "<h2>Share of images by the distance to the nearest anchor, in bits from 0</h2>",
        draw_bars(dict(zip(_SERIES, (share[:shown] for share in shares), strict=True))),
        _examples(unusual, max_pixels=max_pixels),
    ]
    write_text(path, render_page("Drift", "\n".join(parts)))


def _table(recent: Tally, held_out: Tally) -> str:
    rows = [
        ("images", *(f"{counts.images:,}" for counts in (held_out, recent))),
        ("bits to the nearest anchor, mean", *(f"{counts.mean_distance:.2f}" for counts in (held_out, recent))),
        (f"no anchor within {EMPTY_RADIUS} bits", *(f"{counts.empty_balls:.1%}" for counts in (held_out, recent))),
    ]
    lines = "\n".join(f"<tr><th>{name}</th><td>{then}</td><td>{now}</td></tr>" for name, then, now in rows)
    heads = [f'<th style="color:{colour}">{name}</th>' for name, colour in zip(_SERIES, COLOURS, strict=True)]
    return f"<table>\n<tr><th></th>{''.join(heads)}</tr>\n{lines}\n</table>"


def _most_changed(recent: Tally, reference: ReferenceProfile) -> str:
    scores = standardised(recent, reference)
    most = np.argsort(-np.abs(scores), kind="stable")[:5]
    return ", ".join(f"bit {bit} ({scores[bit]:+.1f} standard errors)" for bit in most)


def _examples(unusual: Sequence[Unusual], *, max_pixels: int) -> str:
    if not unusual:
        return ""
    figures = [
        draw_figure(load_file(one.path, max_pixels=max_pixels), f"<b>{one.distance}</b> {html.escape(one.name)}")
        for one in unusual[:SHOWN]
    ]
    heading = "The images furthest from all anchors; the number is the distance in bits"
    return f"<h2>{heading}</h2>\n<div>\n{chr(10).join(figures)}\n</div>"
