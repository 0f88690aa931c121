"""The approximate backend: what it promises is measured, and it follows every change."""

import numpy as np
import pytest

from nsh.core import hamming
from nsh.errors import CodesError
from nsh.serving.index import Filter, Index, approximate

ENCODER = "a" * 64


def clustered(count, *, seed=0):
    """Codes as hashing makes them: in clusters, of different width."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(99).integers(0, 2, (40, 64))
    noise = generator.random((count, 64)) < generator.uniform(0.02, 0.25, (count, 1))
    return np.packbits((centres[generator.integers(0, 40, count)] ^ noise).astype(np.uint8), axis=1)


def recall(index, codes, queries):
    """Of 10, how many are as near as the true 10th."""
    _, exact = hamming.rank(queries, codes, k=10)
    found = index.search(queries, k=10)
    right = [sum(hit.distance <= truth[-1] for hit in hits) / 10 for hits, truth in zip(found, exact, strict=True)]
    return float(np.mean(right))


@pytest.fixture
def index(tmp_path):
    index = Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER, approximate_above=1000)
    index.add([str(row) for row in range(4000)], clustered(4000), encoder_identity=ENCODER)
    return index


def test_the_recall_it_prints_is_the_recall_it_has(index):
    said = float(index.approximate["recall"])
    assert said >= approximate.WANTED_RECALL
    assert int(index.approximate["probes"]) < int(index.approximate["lists"]) == 63
    assert recall(index, clustered(4000), clustered(200, seed=1)) >= said - 0.05


def test_below_its_limit_it_is_not_there(tmp_path):
    index = Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER, approximate_above=1000)
    index.add([str(row) for row in range(1000)], clustered(1000), encoder_identity=ENCODER)
    assert index.approximate == {}
    index.add(["one more"], clustered(1, seed=5), encoder_identity=ENCODER)
    assert index.approximate["rows"] == "1001"
    index.remove(["one more"])
    assert index.approximate == {}


def test_it_follows_adding_changing_and_removing(index):
    far = ~clustered(1)
    index.add(["new"], far, encoder_identity=ENCODER)
    assert index.search(far, k=1)[0][0][:2] == ("new", 0)
    index.add(["new", "17"], np.concatenate([clustered(1), far]), encoder_identity=ENCODER)
    assert index.search(far, k=1)[0][0][:2] == ("17", 0)
    index.remove(["17"])
    assert index.search(far, k=1)[0][0].distance > 0
    assert Index.open(index.folder).search(far, k=1) == index.search(far, k=1)
    assert index.approximate["rows"] == "4000"  # the centres are those found then


def test_the_centres_are_found_anew_when_it_has_doubled(index):
    index.add([f"more {row}" for row in range(4001)], clustered(4001, seed=2), encoder_identity=ENCODER)
    assert index.approximate["rows"] == "8001"


def test_more_than_the_lists_hold_is_exact(index):
    codes, queries = clustered(4000), clustered(3, seed=1)
    rows, distances = hamming.rank(queries, codes, k=4000)
    found = index.search(queries, k=5000)
    assert [[int(hit.id) for hit in hits] for hits in found] == rows.tolist()
    assert [[hit.distance for hit in hits] for hits in found] == distances.tolist()


def test_filtered_and_by_radius_it_is_exact(index):
    codes, queries = clustered(4000), clustered(20, seed=1)
    expected = [rows.tolist() for rows, _ in hamming.within(queries, codes, radius=20)]
    assert [[int(hit.id) for hit in hits] for hits in index.search_radius(queries, radius=20)] == expected
    chosen = [row for row in range(4000) if str(row).startswith("1")]
    rows, _ = hamming.rank(queries, codes[chosen], k=5)
    found = index.search(queries, k=5, where=Filter(id_prefix="1"))
    assert [[int(hit.id) for hit in hits] for hits in found] == np.array(chosen)[rows].tolist()


def test_damage_to_its_file_is_noticed(index):
    path = next((index.folder / "snapshots").glob("*.lists.faiss"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CodesError, match=r"lists\.faiss is not the file that was written"):
        Index.open(index.folder)


def test_a_negative_limit_is_refused(tmp_path):
    with pytest.raises(CodesError, match="approximate_above = -1"):
        Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER, approximate_above=-1)
