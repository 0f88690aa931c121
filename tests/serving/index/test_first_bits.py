"""A search by the first bits of codes against codes that are cut before they are ranked."""

import numpy as np
import pytest

from nsh.core.codes import first_bits, pack
from nsh.core.hamming import rank, within
from nsh.errors import CodesError
from nsh.serving.index import Filter, Index, multi_index

BITS, ITEMS = 20, 300
ENCODER = "a" * 64
LENGTHS = [1, 5, 8, 12, 16, BITS]


@pytest.fixture(scope="module")
def bits():
    return np.random.default_rng(0).random((ITEMS, BITS)) < 0.5


@pytest.fixture
def index(tmp_path, bits):
    index = Index.create(tmp_path / "index", bits=BITS, encoder_identity=ENCODER)
    metadata = [{"third": str(row % 3)} for row in range(ITEMS)]
    index.add([str(row) for row in range(ITEMS)], pack(bits), metadata=metadata, encoder_identity=ENCODER)
    return index


def queries(count=6):
    return pack(np.random.default_rng(1).random((count, BITS)) < 0.5)


def found(answers):
    return [[(int(hit.id), hit.distance) for hit in hits] for hits in answers]


def ranked(bits, *, length, k, keep=None):
    """The nearest rows of codes that have no other bits, by `nsh.core.hamming.rank`."""
    kept = np.arange(len(bits)) if keep is None else keep
    rows, distances = rank(first_bits(queries(), bits=length), pack(bits[kept][:, :length]), k=k)
    return [
        list(zip(kept[one].tolist(), near.tolist(), strict=True)) for one, near in zip(rows, distances, strict=True)
    ]


@pytest.mark.parametrize("length", LENGTHS)
def test_the_nearest_by_the_first_bits_are_those_of_codes_cut_to_them(index, bits, length):
    assert found(index.search(queries(), k=25, bits=length)) == ranked(bits, length=length, k=25)


def test_without_a_length_all_bits_are_compared(index):
    assert index.search(queries(), k=25) == index.search(queries(), k=25, bits=BITS)


@pytest.mark.parametrize("radius", [0, 2, 100])
def test_a_radius_is_in_the_first_bits(index, bits, radius):
    expected = within(first_bits(queries(), bits=8), pack(bits[:, :8]), radius=radius)
    expected = [list(zip(rows.tolist(), near.tolist(), strict=True)) for rows, near in expected]
    assert found(index.search_radius(queries(), radius=radius, bits=8)) == expected
    limited = found(index.search_radius(queries(), radius=radius, limit=3, bits=8))
    assert limited == [hits[:3] for hits in expected]


def test_a_filter_chooses_among_the_first_bits_too(index, bits):
    where, thirds = Filter(column="third", value="1"), np.arange(1, ITEMS, 3)
    assert found(index.search(queries(), k=9, where=where, bits=8)) == ranked(bits, length=8, k=9, keep=thirds)


def test_scores_are_sums_over_the_first_bits(index, bits):
    logits = np.random.default_rng(2).integers(-6, 7, (4, BITS)).astype(np.float32)
    short = Index.create(index.folder.parent / "short", bits=8, encoder_identity=ENCODER)
    short.add([str(row) for row in range(ITEMS)], pack(bits[:, :8]), encoder_identity=ENCODER)
    expected = [
        [(hit.id, hit.distance, hit.score) for hit in hits] for hits in short.search_reranked(logits[:, :8], k=20)
    ]
    answers = index.search_reranked(logits, k=20, bits=8)
    assert [[(hit.id, hit.distance, hit.score) for hit in hits] for hits in answers] == expected


def test_changes_are_seen_at_every_length(index, bits):
    for length in (8, BITS):  # what a former version has made must not be taken for the new one's
        index.search(queries(), k=5, bits=length)
    changed = bits.copy()
    changed[[3, 50]] = ~bits[[3, 50]]
    index.add(["3", "50"], pack(changed[[3, 50]]), encoder_identity=ENCODER)
    index.remove(["7"])
    left = np.delete(np.arange(ITEMS), 7)
    for length in (8, BITS):
        assert found(index.search(queries(), k=ITEMS, bits=length)) == ranked(
            changed, length=length, k=ITEMS, keep=left
        )


def test_tables_of_whole_codes_do_not_answer_for_shorter_ones(index, bits, monkeypatch):
    """A length's own tables do: their answers are proved, not scanned."""
    monkeypatch.setattr(multi_index, "_LEAST_ROWS", 1)
    index = Index.open(index.folder)  # what has been added since an index was opened has no tables
    whole = index.read(lambda snapshot: snapshot.loaded.base)
    for part in (whole, whole.first(16)):
        part._searched.prepare()
    assert found(index.search(queries(), k=5, bits=16)) == ranked(bits, length=16, k=5)
    assert whole._searched.proved + whole._searched.scanned == 0
    assert whole.first(16)._searched.proved + whole.first(16)._searched.scanned == len(queries())


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (0, "a whole number of at least 1 is allowed"),
        (8.0, "a whole number of at least 1 is allowed"),
        (BITS + 1, "found bits = 21: the index has codes of 20 bits"),
    ],
)
def test_lengths_that_codes_do_not_have_are_refused(index, length, message):
    logits = np.ones((1, BITS), np.float32)
    for search in (
        lambda: index.search(queries(), k=1, bits=length),
        lambda: index.search_radius(queries(), radius=1, bits=length),
        lambda: index.search_reranked(logits, k=1, bits=length),
    ):
        with pytest.raises(CodesError, match=message):
            search()


def test_queries_are_whole_codes(index):
    with pytest.raises(CodesError, match="codes of 20 bits must be"):
        index.search(first_bits(queries(), bits=8), k=1, bits=8)
