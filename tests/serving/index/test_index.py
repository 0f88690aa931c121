"""The index against a dictionary, and every refusal; where it goes on as a large one does, a few items are many."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nsh.errors import CodesError, IndexUnusable, UnknownItem
from nsh.serving.index import Filter, Index, database

ENCODER = "a" * 64
BITS = 12

names = st.text(st.sampled_from("ab/é\U0010ffff"), min_size=1, max_size=3)
columns = st.dictionaries(st.sampled_from(["class", "year"]), st.sampled_from(["x", "y"]), max_size=2)
codes = st.integers(0, 2**BITS - 1).map(lambda value: np.frombuffer((value << 4).to_bytes(2, "big"), np.uint8))
filters = st.builds(
    Filter,
    id_prefix=st.none() | st.text(st.sampled_from("ab/é\U0010ffff"), max_size=2),
    column=st.just("class"),
    value=st.sampled_from(["x", "y", "z"]),
) | st.builds(Filter, id_prefix=names)


def distance(one, other):
    return int(np.unpackbits(one ^ other).sum())


# Sizes with which a few items have blocks, new bases, masks and questions by block, as millions have.
SMALL = {
    "blocks.KEYS": 4,
    "loaded.LARGEST_DELTA": 5,
    "selection.FEW": 3,
    "rows.SPARSE": 3,
    "rows._SPARE": 0,
    "rows._MOST": 1,
    "rows._STEP": 5,
    "exact._STEP_WITHIN": 3,
    "items._MANY": 3,
}


class Oracle(RuleBasedStateMachine):
    """A dictionary keeps its order of insertion, and an updated key its place, as the index must."""

    @initialize()
    def begin(self):
        self.patched = pytest.MonkeyPatch()
        for place, value in SMALL.items():
            self.patched.setattr(f"nsh.serving.index.{place}", value)
        self.folder = Path(tempfile.mkdtemp()) / "index"
        self.index = Index.create(self.folder, bits=BITS, encoder_identity=ENCODER)
        self.reader = Index.open(self.folder, readonly=True)
        self.items = {}

    def teardown(self):
        self.patched.undo()
        shutil.rmtree(self.folder.parent)

    @rule(added=st.dictionaries(names, st.tuples(codes, columns), max_size=6), described=st.booleans())
    def add(self, added, described):
        before = len(self.items)
        for name, (code, metadata) in added.items():
            kept = self.items.get(name, (None, {}))[1]
            self.items[name] = (code, metadata if described else kept)
        count = self.index.add(
            list(added),
            np.array([code for code, _ in added.values()], np.uint8).reshape(-1, 2),
            metadata=[metadata for _, metadata in added.values()] if described else None,
            encoder_identity=ENCODER,
        )
        assert count == len(self.items) - before

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def remove(self, data):
        gone = data.draw(st.lists(st.sampled_from(list(self.items)), max_size=3))
        assert self.index.remove(gone) == len(set(gone))
        for name in set(gone):
            del self.items[name]

    @rule()
    def open_again(self):
        self.index = Index.open(self.folder)

    @rule()
    def refresh(self):
        self.reader.refresh()
        assert len(self.reader) == len(self.items)

    @rule(name=names)
    def look_up(self, name):
        for index in (self.index, self.reader):
            if name in self.items:
                np.testing.assert_array_equal(index.code_of(name), self.items[name][0])
            else:
                with pytest.raises(UnknownItem):
                    index.code_of(name)

    @rule()
    def check(self):
        self.index.check()

    def allowed(self, where):
        return [
            (name, code, metadata)
            for name, (code, metadata) in self.items.items()
            if where is None
            or (
                name.startswith(where.id_prefix or "")
                and (where.column is None or metadata.get(where.column) == where.value)
            )
        ]

    def ranked(self, query, where):
        found = [(name, distance(query, code), metadata) for name, code, metadata in self.allowed(where)]
        return sorted(found, key=lambda hit: hit[1])

    def refused(self, where):
        if where is None or where.column is None or any(where.column in item[1] for item in self.items.values()):
            return False
        with pytest.raises(CodesError, match="no item has"):
            self.index.search(np.zeros((1, 2), np.uint8), k=1, where=where)
        return True

    @rule(queries=st.lists(codes, min_size=1, max_size=3), k=st.integers(1, 20), where=st.none() | filters)
    def search(self, queries, k, where):
        if not self.refused(where):
            wanted = [self.ranked(query, where)[:k] for query in queries]
            for index in (self.index, self.reader):
                assert index.search(np.array(queries), k=k, where=where) == wanted

    @rule(query=codes, radius=st.integers(0, 14), limit=st.none() | st.integers(1, 5), where=st.none() | filters)
    def search_radius(self, query, radius, limit, where):
        if not self.refused(where):
            wanted = [hit for hit in self.ranked(query, where) if hit[1] <= radius][:limit]
            for index in (self.index, self.reader):
                assert index.search_radius(query[None], radius=radius, where=where, limit=limit) == [wanted]

    @invariant()
    def it_holds_the_same(self):
        if hasattr(self, "items"):
            assert len(self.index) == len(self.items)
            if len(self.items) % 3 == 0:  # in between, the reader stays at its version
                zero = np.zeros((1, 2), np.uint8)
                assert self.reader.search(zero, k=3) == [self.ranked(zero[0], None)[:3]]


TestOracle = Oracle.TestCase
TestOracle.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


def draw(count, *, bytes=8, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, bytes), dtype=np.uint8)


@pytest.fixture
def index(tmp_path):
    index = Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER)
    index.add(["a", "b", "c"], draw(3), encoder_identity=ENCODER, metadata=[{"class": "x"}, {"class": "y"}, {}])
    return index


def test_what_it_says_about_itself(index):
    assert (index.bits, index.encoder_identity, index.version, len(index)) == (64, ENCODER, 1, 3)
    assert index.columns == ["class"]


def test_an_empty_index_finds_nothing(tmp_path):
    index = Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER)
    assert index.search(draw(2), k=5) == [[], []]
    assert index.search_radius(draw(2), radius=64) == [[], []]
    assert index.search(draw(0), k=5) == []
    assert len(Index.open(tmp_path / "index")) == 0


def test_a_radius_of_0_finds_equal_codes_in_the_order_of_insertion(index):
    index.add(["twin"], index.code_of("b")[None], encoder_identity=ENCODER)
    (hits,) = index.search_radius(index.code_of("b")[None], radius=0)
    assert [(hit.id, hit.distance) for hit in hits] == [("b", 0), ("twin", 0)]


def test_an_update_without_metadata_leaves_them_and_one_with_replaces_them(index):
    index.add(["a"], draw(1, seed=1), encoder_identity=ENCODER)
    assert index.search(draw(1, seed=1), k=1)[0][0] == ("a", 0, {"class": "x"})
    index.add(["a"], draw(1, seed=1), encoder_identity=ENCODER, metadata=[{"year": "2026"}])
    assert index.search(draw(1, seed=1), k=1)[0][0] == ("a", 0, {"year": "2026"})


def test_what_is_handed_out_is_the_callers(index):
    index.search(draw(1), k=1)[0][0].metadata["class"] = "changed"
    index.code_of("a")[:] = 0
    assert index.search(draw(1), k=1)[0][0] == ("a", 0, {"class": "x"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ids": ["d", "d"]}, "found 'd' more than once"),
        ({"ids": ["d", ""]}, "found the id ''"),
        ({"ids": ["d", "\udcff"]}, "found the id '.udcff'"),
        ({"ids": ["d", "e\0"]}, "without NUL"),
        ({"ids": ["d", 7]}, "found the id 7"),
        ({"ids": ["d"]}, "found 1 ids and 2 codes"),
        ({"metadata": [{}]}, "found 2 ids and 1 metadata"),
        ({"metadata": [{}, {"class": 3}]}, "found 3 in the metadata"),
        ({"encoder_identity": "b" * 64}, "codes of the encoder aaaaaaaaaaaa, found the encoder bbbbbbbbbbbb"),
        ({"codes": draw(2, bytes=16)}, "codes of 64 bits must be a uint8 array"),
        ({"codes": draw(2).astype(np.int64)}, "codes of 64 bits must be a uint8 array"),
    ],
)
def test_what_cannot_be_added_changes_nothing(index, arguments, message):
    whole = {"ids": ["d", "e"], "codes": draw(2), "encoder_identity": ENCODER} | arguments
    with pytest.raises(CodesError, match=message):
        index.add(whole.pop("ids"), whole.pop("codes"), **whole)
    assert (index.version, len(index)) == (1, 3)


def test_unknown_ids_are_named_and_nothing_is_removed(index):
    with pytest.raises(CodesError, match="no item 'x', 'y': nothing was removed"):
        index.remove(["a", "x", "y"])
    assert len(index) == 3
    for name in ("x", "\udcff", "a\0"):
        with pytest.raises(UnknownItem, match="the index has no item"):
            index.code_of(name)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3", None])
def test_k_must_be_a_whole_number_of_at_least_1(index, k):
    with pytest.raises(CodesError, match="found k = "):
        index.search(draw(1), k=k)


@pytest.mark.parametrize(("radius", "limit"), [(-1, None), (2.5, None), (1, 0)])
def test_radius_and_limit_have_their_ranges(index, radius, limit):
    with pytest.raises(CodesError, match="a whole number of at least"):
        index.search_radius(draw(1), radius=radius, limit=limit)


def test_a_huge_k_or_radius_finds_everything(index):
    assert len(index.search(draw(1), k=10**9)[0]) == 3
    assert len(index.search_radius(draw(1), radius=10**9)[0]) == 3


def test_a_query_of_another_length_is_refused(index):
    with pytest.raises(CodesError, match="codes of 64 bits must be"):
        index.search(draw(1, bytes=16), k=1)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (Filter(column="class"), "give both"),
        (Filter(value="x"), "give both"),
        (Filter(id_prefix="\udcff"), r"found '.udcff' in the filter"),
        (Filter(column="class", value="x\0"), "texts, without NUL"),
        (Filter(column="colour", value="x"), "no item has the metadata column 'colour': there are class"),
    ],
)
def test_filters_that_cannot_be_met(index, where, message):
    with pytest.raises(CodesError, match=message):
        index.search(draw(1), k=1, where=where)


def test_an_empty_filter_is_none(index):
    assert index.search(draw(1), k=3, where=Filter()) == index.search(draw(1), k=3)


def test_a_folder_that_is_no_index(tmp_path):
    with pytest.raises(CodesError, match=r"there is no index in .*: make one with `nsh index build`"):
        Index.open(tmp_path / "absent")
    (tmp_path / "index.sqlite").write_bytes(b"something else, and long enough to be looked at as a database" * 100)
    with pytest.raises(CodesError, match=r"is damaged .*: restore a backup"):
        Index.open(tmp_path)


def test_an_index_is_not_made_over_something(index):
    with pytest.raises(CodesError, match="is not empty"):
        Index.create(index.folder, bits=64, encoder_identity=ENCODER)


def test_an_index_of_a_later_schema_is_refused(index):
    with database.writing(index.folder) as connection:
        connection.execute("UPDATE setting SET value = '3' WHERE name = 'schema'")
    with pytest.raises(
        IndexUnusable, match="has schema 3, and this version reads 2: use the version of nsh that wrote it"
    ):
        Index.open(index.folder)


def test_one_opened_for_reading_cannot_be_changed(index):
    reader = Index.open(index.folder, readonly=True)
    for change in (lambda: reader.add(["d"], draw(1), encoder_identity=ENCODER), lambda: reader.remove(["a"])):
        with pytest.raises(CodesError, match="opened for reading only"):
            change()
