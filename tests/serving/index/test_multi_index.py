"""Multi-index hashing, held against `nsh.core.hamming`: codes of any length, nearly all ties, skewed, few."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsh.core import hamming
from nsh.core.codes import pack
from nsh.serving.index import multi_index, proof, substrings
from nsh.serving.index.multi_index import MultiIndex
from nsh.serving.index.substrings import build, choose_columns, masks, values_of

CHEAP = {multi_index: {"_LEAST_ROWS": 0}, proof: {"_ROW_COST": 0.01, "_LOOKUP_COST": 0.001, "_LEAST_BATCH": 0.01}}
"""So that a few hundred codes are searched as millions are: in several turns, and a proof costs less than a scan."""


@pytest.fixture
def cheap(monkeypatch):
    _set(monkeypatch, CHEAP)


def _set(patched, constants):
    for module, values in constants.items():
        for name, value in values.items():
            patched.setattr(module, name, value)


@st.composite
def searches(draw):
    """Codes of 1 to 512 bits: uniform, near few centres, with constant bits, with equal bits, or all equal."""
    bits = draw(st.sampled_from([1, 2, 7, 8, 9, 12, 16, 24, 31, 32, 48, 64, 65, 100, 128, 256, 511, 512]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    centres = generator.random((draw(st.sampled_from([1, 3, 400])), bits)) < 0.5
    flips = draw(st.sampled_from([0.0, 0.02, 0.2, 0.5]))

    def codes(count):
        drawn = centres[generator.integers(len(centres), size=count)]
        drawn = drawn ^ (generator.random((count, bits)) < flips)
        if constant:
            drawn[:, : bits // 2] = True
        if equal:
            drawn[:, bits // 2 :] = drawn[:, -1:]
        return pack(drawn)

    constant, equal = draw(st.booleans()), draw(st.booleans())
    gallery = codes(draw(st.integers(1, 400)))
    constant = constant and draw(st.booleans())  # queries may differ from the gallery in its constant bits
    query = codes(draw(st.integers(0, 6)))
    return query, gallery


def check(found, expected):
    assert len(found) == len(expected)
    for (rows, distances), (expected_rows, expected_distances) in zip(found, expected, strict=True):
        assert rows.dtype == distances.dtype == np.int64
        np.testing.assert_array_equal(rows, expected_rows)
        np.testing.assert_array_equal(distances, expected_distances)


@given(search=searches(), k=st.integers(1, 450), costly=st.booleans(), threads=st.integers(1, 2))
@settings(max_examples=100, deadline=None)
def test_nearest_is_rank(search, k, costly, threads):
    query, gallery = search
    index = MultiIndex(gallery)
    index.prepare()
    with pytest.MonkeyPatch.context() as patched:
        _set(patched, CHEAP | ({proof: {"_LEAST_BATCH": 1}} if costly else {}))
        check(index.nearest(query, k=k, threads=threads), list(zip(*hamming.rank(query, gallery, k=k), strict=True)))
    assert index.proved + index.scanned == len(query)


@given(
    search=searches(),
    radius=st.integers(0, 40) | st.integers(0, 512),
    limit=st.none() | st.integers(1, 450),
    costly=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_within_is_within(search, radius, limit, costly):
    query, gallery = search
    index = MultiIndex(gallery)
    index.prepare()
    with pytest.MonkeyPatch.context() as patched:
        _set(patched, CHEAP | ({proof: {"_LEAST_BATCH": 1}} if costly else {}))
        found = index.within(query, radius=radius, limit=limit)
    expected = hamming.within(query, gallery, radius=radius)
    check(found, [(rows[:limit], distances[:limit]) for rows, distances in expected])
    assert index.proved + index.scanned == len(query)


@pytest.fixture(scope="module")
def near_centres():
    """5,000 codes of 64 bits near 50 centres, of which a twentieth of the bits differ; as queries 40 new ones."""
    generator = np.random.default_rng(0)
    centres = generator.random((50, 64)) < 0.5
    codes = pack(centres[generator.integers(50, size=5040)] ^ (generator.random((5040, 64)) < 0.05))
    return codes[:5000], codes[5000:]


def test_a_proof_looks_at_few_rows(near_centres, monkeypatch):
    gallery, query = near_centres
    looked_at, merge = [], proof.Search._merge
    monkeypatch.setattr(multi_index, "_LEAST_ROWS", 0)
    monkeypatch.setattr(proof, "_LEAST_BATCH", 100)
    monkeypatch.setattr(proof, "_ROW_COST", 1)
    monkeypatch.setattr(proof, "_LOOKUP_COST", 0.01)
    monkeypatch.setattr(proof.Search, "_merge", lambda search, rows: looked_at.append(len(rows)) or merge(search, rows))
    index = MultiIndex(gallery)
    index.prepare()
    check(index.within(query, radius=4), hamming.within(query, gallery, radius=4))
    assert (index.proved, index.scanned) == (len(query), 0)
    assert sum(looked_at) < 0.2 * len(query) * len(gallery)


def test_what_costs_too_much_is_scanned_and_counted(near_centres, cheap, monkeypatch):
    gallery, query = near_centres
    index = MultiIndex(gallery)
    check(index.nearest(query, k=3), list(zip(*hamming.rank(query, gallery, k=3), strict=True)))
    assert (index.proved, index.scanned) == (0, len(query))  # no tables yet
    index.prepare()
    check(index.nearest(query, k=3), list(zip(*hamming.rank(query, gallery, k=3), strict=True)))
    assert (index.proved, index.scanned) == (len(query), len(query))
    monkeypatch.setattr(proof, "_ROW_COST", len(gallery))
    check(index.nearest(query, k=3), list(zip(*hamming.rank(query, gallery, k=3), strict=True)))
    assert (index.proved, index.scanned) == (len(query), 2 * len(query))


def test_few_codes_are_scanned(near_centres):
    gallery, query = near_centres
    index = MultiIndex(gallery)
    index.prepare()
    index.nearest(query, k=3)
    assert index.proved == 0


def test_tables_are_made_once_scans_have_cost_as_much(near_centres, cheap, monkeypatch):
    gallery, query = near_centres
    monkeypatch.setattr(multi_index, "_SCANS", len(query) + 1)
    index = MultiIndex(gallery)
    index.nearest(query, k=3)
    assert index._preparing is None
    index.within(query[:1], radius=0)
    index._preparing.join()
    assert index.nbytes == 5 * 4 * (len(gallery) + 2**12 + 1)  # five tables of 12 bits
    index.nearest(query, k=3)
    assert index.proved == len(query)


def test_without_memory_for_tables_the_scan_answers(near_centres, cheap, monkeypatch):
    gallery, query = near_centres

    def refuse(codes):
        raise MemoryError

    monkeypatch.setattr(multi_index, "build", refuse)
    monkeypatch.setattr(multi_index, "_SCANS", 1)
    index = MultiIndex(gallery)
    index.nearest(query, k=3)
    index._preparing.join()
    check(index.nearest(query, k=3), list(zip(*hamming.rank(query, gallery, k=3), strict=True)))
    assert (index.proved, index.scanned, index.nbytes) == (0, 2 * len(query), 0)


def test_threads_share_tables(near_centres, cheap):
    gallery, query = near_centres
    expected = list(zip(*hamming.rank(query, gallery, k=5), strict=True))
    index = MultiIndex(gallery)
    index.prepare()
    masks.cache_clear()  # they are made in several threads at once
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: index.nearest(query, k=5), range(24)):
            check(found, expected)
    assert index.proved == 24 * len(query)


def test_no_codes_and_no_queries():
    index = MultiIndex(np.empty((0, 8), np.uint8))
    ((rows, distances),) = index.nearest(np.zeros((1, 8), np.uint8), k=3)
    assert len(rows) == len(distances) == 0
    assert index.within(np.empty((0, 8), np.uint8), radius=3) == []


def test_a_table_lists_every_row_under_its_substring():
    codes = np.random.default_rng(0).integers(0, 4, (3000, 5), dtype=np.uint8)
    tables = build(codes)
    values = values_of(codes, tables.columns)
    assert tables.columns.size == len(np.unique(tables.columns))
    for table, (starts, rows) in enumerate(zip(tables.starts, tables.rows, strict=True)):
        for value in np.unique(values[:, table]):
            listed = rows[starts[value] : starts[value + 1]]
            np.testing.assert_array_equal(listed, np.flatnonzero(values[:, table] == value))


def test_equal_bits_are_in_different_substrings():
    drawn = np.random.default_rng(0).random((4096, 12)) < 0.5
    columns = choose_columns(pack(np.repeat(drawn, 2, axis=1)))  # bits 2 i and 2 i + 1 are equal
    assert columns.shape == (2, 12)
    assert all(len(np.unique(chosen // 2)) == 12 for chosen in columns)


def test_masks_are_all_numbers_with_so_many_bits():
    assert masks(5, 2).tolist() == [number for number in range(32) if number.bit_count() == 2]


def test_a_row_as_far_as_the_last_one_found_is_not_overlooked(monkeypatch):
    """It comes first by its row, and only a radius that the proof may not look up would find it."""
    _set(monkeypatch, {multi_index: {"_LEAST_ROWS": 0}, proof: {"_ROW_COST": 0.01, "_LEAST_BATCH": 0.01}})
    monkeypatch.setattr(substrings, "choose_columns", lambda codes: np.arange(16).reshape(2, 8))
    gallery = np.full((256, 2), 0b00111111, np.uint8)
    gallery[1] = 0b10000000  # a bit in each substring
    gallery[5] = 0b11000000, 0  # the same distance, in the first substring alone
    query = np.zeros((1, 2), np.uint8)
    monkeypatch.setattr(proof, "_LOOKUP_COST", 1)
    monkeypatch.setattr(proof, "_TRIAL", 10 / len(gallery))  # radius 0 costs 2, radius 1 would cost 16
    index = MultiIndex(gallery)
    index.prepare()
    check(index.nearest(query, k=1), [(np.array([1]), np.array([2]))])
    assert (index.proved, index.scanned) == (0, 1)
