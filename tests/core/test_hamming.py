import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nsh.core.hamming as hamming
from nsh.core.codes import pack
from nsh.errors import CodesError

lengths = st.integers(1, 140) | st.sampled_from([255, 256, 257, 511, 512])


@st.composite
def two_sets(draw):
    """Bits of queries and gallery, of one length, often with equal rows."""
    bits = draw(lengths)
    pool = draw(arrays(np.bool_, (draw(st.integers(1, 6)), bits)))
    query = draw(st.lists(st.integers(0, len(pool) - 1), min_size=0, max_size=4))
    gallery = draw(st.lists(st.integers(0, len(pool) - 1), min_size=0, max_size=12))
    return pool[query].reshape(-1, bits), pool[gallery].reshape(-1, bits)


def distances_by_hand(query, gallery):
    return [[sum(a != b for a, b in zip(q, g, strict=True)) for g in gallery.tolist()] for q in query.tolist()]


@given(two_sets())
def test_distances_count_differing_bits(sets):
    query, gallery = sets
    table = hamming.distances(pack(query), pack(gallery))
    assert table.dtype == np.uint16
    assert table.shape == (len(query), len(gallery))
    assert table.tolist() == distances_by_hand(query, gallery)
    assert (table <= query.shape[1]).all()


@given(two_sets(), st.integers(1, 20))
def test_rank_orders_by_distance_then_row(sets, k):
    query, gallery = sets
    rows, nearest = hamming.rank(pack(query), pack(gallery), k=k)
    assert rows.dtype == np.int64
    assert nearest.dtype == np.uint16
    for row, table in enumerate(distances_by_hand(query, gallery)):
        expected = sorted((distance, item) for item, distance in enumerate(table))[:k]
        assert list(zip(nearest[row].tolist(), rows[row].tolist(), strict=True)) == expected


@given(two_sets(), st.integers(0, 520))
def test_within_is_inclusive_and_ordered(sets, radius):
    query, gallery = sets
    found = hamming.within(pack(query), pack(gallery), radius=radius)
    assert len(found) == len(query)
    for (rows, nearby), table in zip(found, distances_by_hand(query, gallery), strict=True):
        expected = sorted((distance, item) for item, distance in enumerate(table) if distance <= radius)
        assert list(zip(nearby.tolist(), rows.tolist(), strict=True)) == expected


def test_radius_zero_finds_equal_codes():
    gallery = np.array([[1], [3], [1]], np.uint8)
    ((rows, nearby),) = hamming.within(np.array([[1]], np.uint8), gallery, radius=0)
    assert rows.tolist() == [0, 2]
    assert nearby.tolist() == [0, 0]


def test_k_larger_than_the_gallery_ranks_it_whole():
    rows, nearest = hamming.rank(np.array([[0]], np.uint8), np.array([[255], [0], [1]], np.uint8), k=10)
    assert rows.tolist() == [[1, 2, 0]]
    assert nearest.tolist() == [[0, 1, 8]]


def test_many_blocks_equal_one(monkeypatch):
    random = np.random.default_rng(0)
    query, gallery = (random.integers(0, 256, (n, 5), dtype=np.uint8) for n in (23, 40))
    whole = hamming.rank(query, gallery, k=7)
    monkeypatch.setattr(hamming, "_PAIRS_PER_BLOCK", 100)
    cut = hamming.rank(query, gallery, k=7)
    np.testing.assert_array_equal(whole[0], cut[0])
    np.testing.assert_array_equal(whole[1], cut[1])


@given(st.integers(0, 2000), st.integers(0, 10**7))
def test_query_blocks_cover_every_query_once(queries, gallery):
    covered = [row for block in hamming.query_blocks(queries, gallery) for row in range(block.start, block.stop)]
    assert covered == list(range(queries))


def test_codes_of_two_lengths_are_refused():
    with pytest.raises(CodesError, match="query codes have 1 bytes and gallery codes 2"):
        hamming.distances(np.zeros((1, 1), np.uint8), np.zeros((1, 2), np.uint8))


@pytest.mark.parametrize(
    "codes", [np.zeros((1, 1), np.int8), np.zeros(4, np.uint8), np.zeros((1, 0), np.uint8), np.zeros((1, 65), np.uint8)]
)
def test_what_are_no_codes_is_refused(codes):
    with pytest.raises(CodesError, match="gallery codes must be a uint8 array"):
        hamming.rank(np.zeros((1, 1), np.uint8), codes, k=1)


@pytest.mark.parametrize("k", [0, -1])
def test_rank_needs_a_positive_k(k):
    with pytest.raises(CodesError, match="at least 1"):
        hamming.rank(np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.uint8), k=k)


def test_within_needs_a_radius():
    with pytest.raises(CodesError, match="0 or more"):
        hamming.within(np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.uint8), radius=-1)
