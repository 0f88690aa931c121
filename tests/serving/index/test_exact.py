"""The order of FAISS's results, held against `nsh.core.hamming` where nearly everything is a tie."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsh.core import hamming
from nsh.serving.index import exact
from nsh.serving.index.exact import nearest, within


@st.composite
def searches(draw):
    """Codes of any length drawn from few values: most distances are equal, and the k-th place falls among ties."""
    width = draw(st.sampled_from([1, 2, 3, 4, 7, 8, 16, 20, 32, 33, 64]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = draw(st.sampled_from([1, 2, 4, 256]))
    gallery = generator.integers(0, values, (draw(st.integers(0, 400)), width), dtype=np.uint8)
    query = generator.integers(0, values, (draw(st.integers(0, 40)), width), dtype=np.uint8)
    return query, gallery


@given(search=searches(), k=st.integers(1, 450), threads=st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_nearest_is_rank(search, k, threads):
    query, gallery = search
    rows, distances = hamming.rank(query, gallery, k=k)
    found = nearest(query, gallery, k=k, threads=threads)
    assert len(found) == len(query)
    for row, (found_rows, found_distances) in enumerate(found):
        np.testing.assert_array_equal(found_rows, rows[row])
        np.testing.assert_array_equal(found_distances, distances[row])


@given(search=searches(), k=st.integers(1, 30), threads=st.integers(1, 2))
@settings(max_examples=300, deadline=None)
def test_nearest_by_a_bound_is_rank(search, k, threads):
    query, gallery = search
    with pytest.MonkeyPatch.context() as patched:  # so that a few hundred rows are sampled as millions are
        for name, value in (("_SAMPLED_FROM", 1), ("_RUN", 2), ("_STEP", 5)):
            patched.setattr(exact, name, value)
        found = nearest(query, gallery, k=k, threads=threads)
    rows, distances = hamming.rank(query, gallery, k=k)
    for row, (found_rows, found_distances) in enumerate(found):
        np.testing.assert_array_equal(found_rows, rows[row])
        np.testing.assert_array_equal(found_distances, distances[row])


def test_a_bound_is_used_where_codes_are_many(monkeypatch):
    generator = np.random.default_rng(0)
    gallery = generator.integers(0, 256, (200_000, 8), dtype=np.uint8)
    query = generator.integers(0, 256, (5, 8), dtype=np.uint8)
    rows, distances = hamming.rank(query, gallery, k=10)
    monkeypatch.setattr(exact, "_by_heap", None)
    for row, (found_rows, found_distances) in enumerate(nearest(query, gallery, k=10)):
        np.testing.assert_array_equal(found_rows, rows[row])
        np.testing.assert_array_equal(found_distances, distances[row])


@given(search=searches(), radius=st.integers(0, 40), threads=st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_within_is_inclusive_and_ordered(search, radius, threads):
    query, gallery = search
    expected = hamming.within(query, gallery, radius=radius) if len(gallery) else [([], [])] * len(query)
    found = within(query, gallery, radius=radius, threads=threads)
    assert len(found) == len(query)
    for (rows, distances), (expected_rows, expected_distances) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(rows, expected_rows)
        np.testing.assert_array_equal(distances, expected_distances)


@pytest.mark.parametrize("queries", [1, 20])
def test_ties_across_faiss_blocks_keep_their_order(queries):
    """FAISS works in blocks of 65,536 rows; the ties here lie in three of them."""
    gallery = np.random.default_rng(0).integers(0, 2, (150_000, 2), dtype=np.uint8)
    query = np.zeros((queries, 2), np.uint8)
    rows, distances = hamming.rank(query, gallery, k=60_000)
    for found_rows, found_distances in nearest(query, gallery, k=60_000, threads=2):
        np.testing.assert_array_equal(found_rows, rows[0])
        np.testing.assert_array_equal(found_distances, distances[0])


def test_a_mapped_read_only_file_can_be_searched(tmp_path):
    codes = np.random.default_rng(0).integers(0, 256, (100, 8), dtype=np.uint8)
    np.save(tmp_path / "codes.npy", codes)
    mapped = np.load(tmp_path / "codes.npy", mmap_mode="r")
    assert nearest(codes[7:8], mapped, k=1)[0][0].tolist() == [7]
    assert within(codes[7:8], mapped, radius=0)[0][0].tolist() == [7]
