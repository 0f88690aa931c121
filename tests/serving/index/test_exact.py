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


@given(
    search=searches(),
    radius=st.integers(0, 40),
    limit=st.none() | st.integers(1, 30),
    step=st.sampled_from([1, 7, 1000]),
    threads=st.integers(1, 3),
)
@settings(max_examples=200, deadline=None)
def test_within_is_inclusive_and_ordered(search, radius, limit, step, threads):
    query, gallery = search
    expected = hamming.within(query, gallery, radius=radius) if len(gallery) else [([], [])] * len(query)
    with pytest.MonkeyPatch.context() as patched:  # so that a few hundred rows are several steps
        patched.setattr(exact, "_STEP_WITHIN", step)
        found = within(query, gallery, radius=radius, limit=limit, threads=threads)
    assert len(found) == len(query)
    for (rows, distances), (expected_rows, expected_distances) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(rows, expected_rows[:limit])
        np.testing.assert_array_equal(distances, expected_distances[:limit])


def test_a_limit_bounds_what_a_large_radius_holds(monkeypatch):
    gallery = np.random.default_rng(0).integers(0, 256, (5000, 8), dtype=np.uint8)
    monkeypatch.setattr(exact, "_STEP_WITHIN", 500)
    search, held = exact._within, []

    def count(*arguments):
        found = search(*arguments)
        held.append(len(found[0][0]))
        return found

    monkeypatch.setattr(exact, "_within", count)
    within(gallery[:1], gallery, radius=64, limit=10)
    assert held[0] == 500  # the first step, of which 10 stay
    assert sum(held[1:]) < 200  # nearer than the tenth: some 10 x (1/2 + 1/3 + ... + 1/10) of random codes


def test_one_query_has_one_thread(monkeypatch):
    monkeypatch.setattr(exact, "ThreadPoolExecutor", None)
    gallery = np.random.default_rng(0).integers(0, 256, (70_000, 8), dtype=np.uint8)
    assert nearest(gallery[7:8], gallery, k=1, threads=8)[0][0].tolist() == [7]
    assert within(gallery[7:8], gallery, radius=0, limit=1, threads=8)[0][0].tolist() == [7]


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
