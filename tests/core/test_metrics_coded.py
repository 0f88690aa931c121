"""Codes of two parts, held against the rows of the split that they are of."""

import numpy as np
import pytest

from nsh.core.manifest import Codes, Entry
from nsh.core.metrics.coded import count_parts, find_nearest, place_codes
from nsh.core.metrics.evaluation import evaluate
from nsh.errors import CodesError


def make(part, count, *, broken=()):
    """The codes of all images but the broken ones, in an order that is not the split's, and the split's rows."""
    generator = np.random.default_rng(count)
    ids = [f"{part}/{row}" for row in range(count)]
    labels = np.eye(3, dtype=bool)[generator.integers(0, 3, count)]
    kept = [row for row in generator.permutation(count) if row not in broken]
    codes = generator.integers(0, 256, (len(kept), 1), dtype=np.uint8)
    errors = [Entry(id=ids[row], status="error", error="truncated") for row in broken]
    return Codes([ids[row] for row in kept], codes, {}, errors), ids, labels, kept


def test_codes_find_their_rows_and_labels():
    codes, ids, labels, kept = make("gallery", 9, broken=(2, 5))
    placed = place_codes(codes, ids, labels)
    assert placed.rows.tolist() == kept
    assert np.array_equal(placed.labels, labels[kept])
    assert place_codes(codes, ids, None).labels is None


def test_codes_of_other_images_are_refused():
    codes, ids, labels, _ = make("gallery", 9)
    for others in (ids[:-1], [*ids, "gallery/9"]):
        with pytest.raises(CodesError, match="not of the images of data/split"):
            place_codes(codes, others, labels)


def test_figures_are_of_the_images_with_a_code_and_the_others_are_counted():
    parts = [make("query", 4), make("gallery", 9, broken=(2, 5))]
    query, gallery = (place_codes(codes, ids, labels) for codes, ids, labels, _ in parts)
    placed = [query.codes.codes, gallery.codes.codes, query.labels, gallery.labels]
    arrays = [part[0].codes for part in parts] + [part[2][part[3]] for part in parts]
    assert evaluate(*placed, bits=8, k=5).metrics == evaluate(*arrays, bits=8, k=5).metrics
    assert count_parts(query, gallery) == {
        "queries": 4,
        "gallery": 7,
        "queries_without_code": 0,
        "gallery_without_code": 2,
    }


def test_nearest_images_are_named_by_the_rows_of_the_split():
    parts = [make("query", 4), make("gallery", 9, broken=(2, 5))]
    query, gallery = (place_codes(codes, ids, labels) for codes, ids, labels, _ in parts)
    found = find_nearest(query, gallery, seed=0)
    codes = {
        part: dict(zip(side.rows.tolist(), side.codes.codes, strict=True))
        for part, side in (("query", query), ("gallery", gallery))
    }
    for row, other, distance in zip(found["query"], found["gallery"], found["distance"], strict=True):
        bits = np.unpackbits(codes["query"][int(row)] ^ codes["gallery"][int(other)])
        assert bits.sum() == distance
    assert set(found["gallery"]) == set(range(9)) - {2, 5}
