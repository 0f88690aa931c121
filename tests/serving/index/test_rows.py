"""Rows of a version, searched by tables: removed and filtered rows, and a delta, held against `nsh.core.hamming`."""

import numpy as np
import pytest

from nsh.core import hamming
from nsh.core.codes import pack
from nsh.serving.index import multi_index, proof
from nsh.serving.index.rows import Part, Rows, join


@pytest.fixture(scope="module")
def near_centres():
    """Codes near 50 centres, and their keys: a base of 4,000 rows, a delta of 300 whose keys lie among the base's."""
    generator = np.random.default_rng(1)
    centres = generator.random((50, 64)) < 0.5
    codes = pack(centres[generator.integers(50, size=4300)] ^ (generator.random((4300, 64)) < 0.05))
    keys = generator.permutation(10_000)[:4300]
    old, new = (part[np.argsort(keys[part])] for part in (np.arange(4000), np.arange(4000, 4300)))
    return Part(codes[old], keys[old]), Part(codes[new], keys[new])


@pytest.mark.parametrize("counting", [1.0, 0.95, 0.3])
def test_tables_find_the_rows_that_count(near_centres, counting, monkeypatch):
    base, delta = near_centres
    monkeypatch.setattr(multi_index, "_LEAST_ROWS", 0)
    monkeypatch.setattr(proof, "_ROW_COST", 0.01)
    monkeypatch.setattr(proof, "_LOOKUP_COST", 0.001)
    base._searched.prepare()
    alive = np.random.default_rng(2).random(len(base)) < counting
    rows, query = Rows(base, None if alive.all() else alive, delta), delta.codes[::20]
    counted = join(base.take(alive), delta)
    before = base._searched.proved
    for radius, limit in ((None, 10), (4, None), (8, 3)):
        found = rows.search(query, radius=radius, limit=limit, threads=1)
        expected = hamming.within(query, counted.codes, radius=64 if radius is None else radius)
        for (keys, distances), (places, near) in zip(found, expected, strict=True):
            np.testing.assert_array_equal(keys, counted.keys[places[:limit]])
            np.testing.assert_array_equal(distances, near[:limit])
    assert base._searched.proved >= before + 3 * len(query)
