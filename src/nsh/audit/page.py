"""The page of an audit: a verdict for each check, and what is behind it. Decides nothing."""

import html
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from nsh.audit.audit import Audit
from nsh.audit.finding import Finding, Verdict
from nsh.audit.near_duplicates import BITS, RADIUS
from nsh.audit.sizes import ELONGATED, ENLARGED
from nsh.data.imageset import ImageSet
from nsh.serving.html_page import COLOURS, draw_bars, draw_figure, render_page

SHOWN_PAIRS = 50
SHOWN_IMAGES = 24
SHOWN_CLASSES = 100
SHOWN_LINES = 100
"""Of unreadable images. The page is bounded; findings.json and unreadable.jsonl hold all."""

_BARS = ("gallery", "query")


def render(audit: Audit, images: ImageSet) -> str:
    """The page, which loads nothing.

    Args:
        audit: what was found.
        images: of which thumbnails are shown.
    """
    counts = ", ".join(f"{count:,} {part}" for part, count in audit.header["counts"].items())
    body = [
        f"<p>{html.escape(audit.header['data_set'])}: {counts}. {_summarise(audit)}</p>",
        _checks(audit),
        _classes(audit),
        _sizes(audit, images),
        _pairs(audit, images),
        _unreadable(audit),
    ]
    return render_page("Data", "\n".join(body))


def _summarise(audit: Audit) -> str:
    stops, warnings = (len(audit.with_verdict(verdict)) for verdict in (Verdict.STOP, Verdict.WARNING))
    said = "Nothing is trained on these data" if stops else "These data may be trained on"
    return f"<b>{said}. Limits that stop the run: {stops}; that warn: {warnings}.</b>"


def _checks(audit: Audit) -> str:
    rows: list[tuple[str, ...]] = [("check", "verdict", "found", "warning above", "stop above", "what to do")]
    rows += [_check(name, finding) for name, finding in audit.findings.items()]
    return f"<h2>Checks</h2>\n{_table(rows)}\n<p>Limits are in params.yaml: {_keys(audit)}.</p>"


def _check(name: str, finding: Finding) -> tuple[str, ...]:
    limits = ("" if limit is None else f"{limit:g}" for limit in (finding.limit.warn, finding.limit.stop))
    to_do = finding.remedy if finding.verdict in (Verdict.WARNING, Verdict.STOP) else ""
    return (name, finding.verdict, finding.found, *limits, to_do)


def _keys(audit: Audit) -> str:
    return ", ".join(finding.key for finding in audit.findings.values())


def _classes(audit: Audit) -> str:
    classes = sorted(audit.count_classes().items(), key=lambda item: -item[1]["gallery"])
    if not classes:
        return "<h2>Classes</h2>\n<p>Nothing is labelled: the checks of labels were not made.</p>"
    shown, parts = classes[:SHOWN_CLASSES], audit.parts
    shares = {part: np.array([of[part] / len(parts[part].ids) for _, of in shown]) for part in _BARS}
    rows = [("class", *parts), *((name, *(f"{of[part]:,}" for part in parts)) for name, of in shown)]
    colours = " and ".join(f'<b style="color:{c}">{part}</b>' for c, part in zip(COLOURS, _BARS, strict=True))
    bars = draw_bars(shares, places=[name for name, _ in shown])
    heading = f"<h2>Share of each class in {colours}</h2>"
    return f"{heading}\n{bars}\n{_table(rows)}\n{_rest(len(classes), SHOWN_CLASSES, 'classes')}"


def _sizes(audit: Audit, images: ImageSet) -> str:
    sizes, odd = audit.sizes, audit.sizes.odd
    shorter, longer = sizes.sides.T
    rows = [("", "smallest", "median", "largest")]
    for name, values in (("shorter side, pixels", shorter), ("longer side, pixels", longer)):
        rows.append((name, f"{values.min():,}", f"{np.median(values):,.0f}", f"{values.max():,}"))
    enlarged = (shorter < sizes.image_size).mean()
    note = (
        f"An encoder squashes images to squares of {sizes.image_size} pixels, and {enlarged:.1%} of these are enlarged "
        f"for it. A small image has less than 1/{ENLARGED} of its width or height, and of the median image's. The "
        f"longer side of a long one is more than {ELONGATED} times the shorter."
    )
    figures = [_figure(images, sizes.ids[row], f"{shorter[row]} x {longer[row]} pixels") for row in odd[:SHOWN_IMAGES]]
    shown = f"<h2>Images of odd sizes</h2>\n{_row(figures)}\n{_rest(len(odd), SHOWN_IMAGES, 'images')}"
    return f"<h2>Sizes</h2>\n{_table(rows)}\n<p>{note}</p>\n{shown if len(odd) else ''}"


def _pairs(audit: Audit, images: ImageSet) -> str:
    query, gallery, near = audit.parts["query"].ids, audit.parts["gallery"].ids, audit.near_duplicates
    pairs = [
        _row(
            [_figure(images, query[one.query], "query"), _figure(images, gallery[one.gallery], f"{one.distance} bits")]
        )
        for one in near[:SHOWN_PAIRS]
    ]
    note = (
        f"Each query beside its nearest gallery image, if their codes of {BITS} bits differ by {RADIUS} at most. "
        f"{audit.header['duplicates_dropped']} copies of queries with the same bytes were left out of the gallery."
    )
    more = _rest(len(near), SHOWN_PAIRS, "pairs")
    rows = f'<div style="column-gap: 4rem">\n{chr(10).join(pairs)}\n</div>'
    return f"<h2>Near-duplicates across query and gallery</h2>\n<p>{note}</p>\n{rows}\n{more}"


def _unreadable(audit: Audit) -> str:
    if not audit.unreadable:
        return ""
    rows = [("image", "reason"), *audit.unreadable[:SHOWN_LINES]]
    return f"<h2>Unreadable images</h2>\n{_table(rows)}\n{_rest(len(audit.unreadable), SHOWN_LINES, 'images')}"


def _figure(images: ImageSet, image_id: str, said: str) -> str:
    load = partial(images.image, image_id)
    return draw_figure(lambda size: load(size=size), f"<b>{html.escape(said)}</b> {html.escape(image_id)}")


def _row(figures: Sequence[str]) -> str:
    return "<div>\n{}\n</div>".format("\n".join(figures))


def _rest(found: int, shown: int, what: str) -> str:
    return f"<p>and {found - shown:,} {what} more</p>" if found > shown else ""


def _table(rows: Iterable[Sequence[str]]) -> str:
    """A table of text, whose first row and first column are headings."""
    first, *others = ([html.escape(cell) for cell in row] for row in rows)
    lines = ["".join(f"<th>{cell}</th>" for cell in first)]
    lines += [f"<th>{row[0]}</th>" + "".join(f"<td>{cell}</td>" for cell in row[1:]) for row in others]
    return "<table>\n{}\n</table>".format("\n".join(f"<tr>{line}</tr>" for line in lines))
