"""A re-ranked search against a loop over all items: the nearest, then the best of them."""

import numpy as np
import pytest

from nsh.core import reranking
from nsh.core.codes import pack
from nsh.errors import CodesError
from nsh.serving.index import Filter, Index

BITS, ITEMS, SHORTLIST = 12, 150, 20


@pytest.fixture(scope="module")
def bits():
    return np.random.default_rng(0).random((ITEMS, BITS)) < 0.5


@pytest.fixture
def index(tmp_path, bits, monkeypatch):
    """Items 0 to 149, of which every third is odd-named; shortlists are short, so that they decide."""
    monkeypatch.setattr(reranking, "SHORTLIST", SHORTLIST)
    index = Index.create(tmp_path / "index", bits=BITS, encoder_identity="a" * 64)
    names = [f"{'third' if row % 3 == 0 else 'other'}/{row}" for row in range(ITEMS)]
    index.add(names, pack(bits), metadata=[{"row": str(row)} for row in range(ITEMS)], encoder_identity="a" * 64)
    return index


def draw_logits(count, *, seed=1):
    """Quarters: their sums are exact, and many are equal."""
    return (np.random.default_rng(seed).integers(-6, 7, (count, BITS)) / 4).astype(np.float32)


def expected(bits, logits, rows, *, k, radius=BITS):
    """(row, distance, score) of the k best, one item at a time."""
    found = []
    for row in rows:
        distance = sum(bool(bit) != (logit > 0) for bit, logit in zip(bits[row], logits, strict=True))
        score = sum(float(logit) if bit else -float(logit) for bit, logit in zip(bits[row], logits, strict=True))
        found.append((distance, row, score))
    shortlist = sorted(one for one in found if one[0] <= radius)[: max(SHORTLIST, k)]
    best = sorted(shortlist, key=lambda one: (-one[2], one[0], one[1]))[:k]
    return [(row, distance, score) for distance, row, score in best]


def found(hits):
    return [(int(hit.metadata["row"]), hit.distance, hit.score) for hit in hits]


@pytest.mark.parametrize("k", [1, 5, SHORTLIST, SHORTLIST + 30, ITEMS + 1])
def test_the_best_of_the_nearest_are_found(index, bits, k):
    logits = draw_logits(6)
    for query, hits in zip(logits, index.search_reranked(logits, k=k), strict=True):
        assert found(hits) == expected(bits, query, range(ITEMS), k=k)
        assert all(hit.id.endswith(f"/{hit.metadata['row']}") for hit in hits)


def test_a_radius_and_a_filter_choose_the_shortlist(index, bits):
    logits = draw_logits(6)
    thirds, where = range(0, ITEMS, 3), Filter(id_prefix="third/")
    for query in logits:
        (within,) = index.search_reranked(query[None], k=7, radius=4)
        assert found(within) == expected(bits, query, range(ITEMS), k=7, radius=4)
        (filtered,) = index.search_reranked(query[None], k=7, where=where)
        assert found(filtered) == expected(bits, query, thirds, k=7)
        (both,) = index.search_reranked(query[None], k=7, radius=3, where=where)
        assert found(both) == expected(bits, query, thirds, k=7, radius=3)


def test_it_sees_what_was_changed(index, bits):
    logits, changed = draw_logits(3), bits.copy()
    changed[[7, 8]] = ~changed[[8, 7]]
    index.add(["other/7", "other/8"], pack(changed[[7, 8]]), encoder_identity="a" * 64)
    index.remove(["third/0", "third/9"])
    left = [row for row in range(ITEMS) if row not in (0, 9)]
    for query, hits in zip(logits, index.search_reranked(logits, k=9), strict=True):
        assert found(hits) == expected(changed, query, left, k=9)


def test_a_shortlist_of_everything_is_the_order_of_all_scores(index, bits, monkeypatch):
    monkeypatch.setattr(reranking, "SHORTLIST", ITEMS)
    (hits,) = index.search_reranked(draw_logits(1), k=ITEMS)
    scores = [hit.score for hit in hits]
    assert len(hits) == ITEMS
    assert scores == sorted(scores, reverse=True)
    assert [hit.distance for hit in hits] != sorted(hit.distance for hit in hits)


def test_an_empty_index_and_no_query_find_nothing(tmp_path, index):
    empty = Index.create(tmp_path / "empty", bits=BITS, encoder_identity="a" * 64)
    assert empty.search_reranked(draw_logits(2), k=3) == [[], []]
    assert index.search_reranked(draw_logits(0), k=3) == []


@pytest.mark.parametrize(
    ("logits", "options", "message"),
    [
        (np.zeros((1, 10), np.float32), {"k": 1}, "found 10 logits a query, the codes have 12 bits"),
        (np.zeros((1, 24), np.float32), {"k": 1}, "found 24 logits a query"),
        (np.zeros(12, np.float32), {"k": 1}, r"logits must be a float array \[n, bits\]"),
        (np.zeros((1, 2), np.uint8), {"k": 1}, r"logits must be a float array \[n, bits\]"),
        (np.full((1, 12), np.inf), {"k": 1}, "NaN or infinite"),
        (np.full((1, 12), np.nan), {"k": 1}, "NaN"),
        (np.zeros((1, 12)), {"k": 0}, "k = 0"),
        (np.zeros((1, 12)), {"k": 1, "radius": -1}, "radius = -1"),
        (np.zeros((1, 12)), {"k": 1, "where": Filter(column="colour", value="red")}, "no item has the metadata column"),
    ],
)
def test_what_cannot_be_searched_is_said(index, logits, options, message):
    with pytest.raises(CodesError, match=message):
        index.search_reranked(logits, **options)
