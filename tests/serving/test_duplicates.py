"""Groups against chains walked pair by pair; the page against names that would break it."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from nsh.errors import CodesError
from nsh.serving.duplicates import Group, default_radius, find_groups, write_report


def test_the_radius_grows_with_the_code():
    assert [default_radius(bits) for bits in (12, 16, 32, 64, 128)] == [0, 1, 2, 4, 8]


def slow_groups(codes, radius):
    """Join whatever is near, pair by pair, until nothing moves."""
    label = list(range(len(codes)))
    moved = True
    while moved:
        moved = False
        for one in range(len(codes)):
            for other in range(len(codes)):
                near = int(np.unpackbits(codes[one] ^ codes[other]).sum()) <= radius
                if near and label[other] < label[one]:
                    label[one], moved = label[other], True
    groups = [[row for row in range(len(codes)) if label[row] == first] for first in sorted(set(label))]
    return [
        sorted((int(np.unpackbits(codes[row] ^ codes[rows[0]]).sum()), row) for row in rows)
        for rows in groups
        if len(rows) > 1
    ]


@given(seed=st.integers(0, 2**32), count=st.integers(0, 25), width=st.sampled_from([1, 2, 9]), radius=st.integers(0, 6))
@settings(max_examples=80, deadline=None)
def test_groups_are_chains(seed, count, width, radius):
    codes = np.random.default_rng(seed).integers(0, 8, (count, width), dtype=np.uint8)
    found = [list(zip(group.distances, group.rows, strict=True)) for group in find_groups(codes, radius=radius)]
    assert found == slow_groups(codes, radius)


def test_the_ends_of_a_chain_are_one_group():
    codes = np.array([[0b000], [0b011], [0b11110000], [0b001]], np.uint8)
    assert find_groups(codes, radius=1) == [Group([0, 3, 1], [0, 1, 2])]


def test_a_negative_radius_is_refused():
    with pytest.raises(CodesError, match="found a radius of -1"):
        find_groups(np.zeros((2, 8), np.uint8), radius=-1)


def test_the_page_needs_no_other_file_and_survives_any_name(tmp_path):
    names = ['<script>alert(1)</script> & "x".png', "b.png", "broken.png"]
    for name in names[:2]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (300, 200), "red").save(path)
    (tmp_path / "broken.png").write_text("no image")
    write_report(tmp_path / "page.html", [Group([0, 1, 2], [0, 0, 3])], root=tmp_path, ids=names, radius=3)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot;.png" in page
    assert re.findall(r'(?:src|href)="([^,"]*)', page) == ["data:image/jpeg;base64"] * 2
    assert "not an image in any of the formats" in page
    assert "default-src 'none'" in page
    assert "1 groups hold 3 of 3 images; radius 3 bits." in page


def test_a_page_without_groups_says_so(tmp_path):
    write_report(tmp_path / "page.html", [], root=tmp_path, ids=["a.png"], radius=0)
    assert "No two images are that close." in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_page_shows_the_largest_groups_and_says_what_it_leaves_out(tmp_path):
    Image.new("RGB", (20, 20)).save(tmp_path / "a.png")
    groups = [Group([0, 0], [0, 0])] * 250 + [Group([0] * 30, [0] * 30)]
    write_report(tmp_path / "page.html", groups, root=tmp_path, ids=["a.png"], radius=0)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<section>") == 200
    assert "The 200 largest are shown." in page
    assert "Group 1: 30 images" in page
    assert "and 6 more" in page
