"""The page loads nothing, survives any name, and does not grow with the data."""

import re

from nsh.audit.finding import Limit
from nsh.audit.page import SHOWN_IMAGES, SHOWN_LINES, SHOWN_PAIRS, render

SCRIPT = '<script>alert("1")<'
LABELS = {"query": [(row % 2,) for row in range(4)], "gallery": [(0,)] * 20 + [(1,)] * 40}


def test_names_and_reasons_are_text(build):
    names = [f"{SCRIPT}/{row}.png" for row in range(4)]
    audit, images = build(names, copies={1: 5}, sizes=[(10, 40)], unreadable=[(f"{SCRIPT}.jpg", "<b>cut</b>")])
    page = render(audit, images)
    assert "<script" not in page
    assert "<b>cut" not in page
    assert page.count("&lt;script&gt;alert(&quot;1&quot;)&lt;") == 3  # of a pair, an odd size, an unreadable image
    assert set(re.findall(r'(?:src|href)="([^,"]*)', page)) == {"data:image/jpeg;base64"}
    assert "default-src 'none'" in page


def test_a_pair_is_shown_with_its_distance_and_both_names(build):
    audit, images = build(copies={1: 5})
    (pair,) = audit.near_duplicates
    page = render(audit, images)
    section = page[page.index("Near-duplicates") :]
    captions = re.findall("<figcaption>(.*?)</figcaption>", section)
    assert captions == ["<b>query</b> q1.png", f"<b>{pair.distance} bits</b> g05.png"]
    assert section.count("<img") == 2
    assert "2 copies of queries with the same bytes were left out" in section


def test_the_page_is_bounded_and_says_what_it_leaves_out(build):
    names = [f"q{row}.png" for row in range(SHOWN_PAIRS + 7)]
    broken = [(f"broken{row}.jpg", "cut") for row in range(SHOWN_LINES + 5)]
    audit, images = build(
        names, copies={row: row for row in range(len(names))}, sizes=[(4, 40)] * (SHOWN_IMAGES + 3), unreadable=broken
    )
    page = render(audit, images)
    assert page.count("<img") == 2 * SHOWN_PAIRS + SHOWN_IMAGES
    assert page.count("broken") == SHOWN_LINES
    assert [f"and {more} more" in page for more in ("7 pairs", "3 images", "5 images")] == [True] * 3


def test_every_check_has_a_verdict_and_what_to_do_where_it_is_not_fine(build):
    limits = {"near_duplicates": Limit(stop=0.1), "imbalance": Limit(warn=1.5)}
    audit, images = build(copies={1: 5}, labels=LABELS, **limits)
    page = render(audit, images)
    assert "Nothing is trained on these data. Limits that stop the run: 1; that warn: 1." in page
    rows = {row[0]: row[1:] for row in re.findall("<tr><th>(.*?)</th><td>(.*?)</td>.*<td>(.*?)</td></tr>", page)}
    assert {name: rows[name] for name in ("near_duplicates", "imbalance", "unmatched")} == {
        "near_duplicates": ("stop", "remove the copies, or keep those of one scene in one part"),
        "imbalance": ("warning", "set split.draw: per_class, or add images of the small classes"),
        "unmatched": ("fine", ""),
    }


def test_bars_have_the_shares_of_the_classes(build):
    page = render(*build(labels=LABELS))
    assert "<title>dog: gallery 0.667, query 0.500</title>" in page


def test_without_labels_the_page_says_so(build):
    page = render(*build())
    assert "<svg" not in page
    assert "Nothing is labelled: the checks of labels were not made." in page
