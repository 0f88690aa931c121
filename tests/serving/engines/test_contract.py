"""One contract of all engines: the SQLite index and a Milvus collection give the same answers in the same order."""

import os
from importlib.util import find_spec
from uuid import uuid4

import numpy as np
import pytest

from nsh.core.hamming import distances
from nsh.errors import CodesError, UnknownItem
from nsh.serving.engines.opening import open_engine
from nsh.serving.index import Filter, Index

SERVER = os.environ.get("NSH_TEST_MILVUS")
ENCODER, BITS, ITEMS = "a" * 64, 12, 120
ODD = [
    "it's",
    'say "hi"',
    "back\\slash",
    "müller 語 😀",
    "50%_off",
    "line\nbreak",
    "a{b}c",
    "dir/",
    "dir0",
    "100%25",
    "a=b\U0010ffff",
]


def draw(count, seed=0):
    """Codes of 12 bits near four centres: nearly all distances are ties."""
    generator = np.random.default_rng(seed)
    bits = (generator.random((4, BITS)) < 0.5)[generator.integers(0, 4, count)] ^ (
        generator.random((count, BITS)) < 0.15
    )
    return np.packbits(bits, axis=1)


def items():
    """Ids in no alphabetical order, with odd ones among them, and metadata of some."""
    ids = [f"dir/{number * 37 % ITEMS:03d}.jpg" for number in range(ITEMS)] + ODD
    metadata = [{"class": ("cat", 'it\'s \\ "x"')[n % 2], 'odd"name': "1"} if n % 3 else {} for n in range(len(ids))]
    return ids, draw(len(ids)), metadata


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory):
    made = Index.create(tmp_path_factory.mktemp("sqlite") / "index", bits=BITS, encoder_identity=ENCODER)
    ids, codes, metadata = items()
    made.add(ids, codes, metadata=metadata, encoder_identity=ENCODER)
    return made


@pytest.fixture(scope="module")
def milvus(sqlite, tmp_path_factory):
    """The same items, exported to a collection of a server at $NSH_TEST_MILVUS (HOST:PORT), or of Milvus Lite."""
    if SERVER is None and find_spec("milvus_lite") is None:  # to import it takes more than it says it needs
        pytest.skip("needs Milvus Lite: pip install 'nsh[milvus-lite]'")
    from nsh.serving.engines.milvus_export import export_to_milvus

    url = f"milvus://{SERVER or tmp_path_factory.mktemp('milvus') / 'index.db'}/photos_{uuid4().hex}"
    export_to_milvus(Index.open(sqlite.folder, readonly=True), url)
    return open_engine(url)


@pytest.fixture(params=["sqlite", "milvus"])
def engine(request):
    return request.getfixturevalue(request.param)


FILTERS = [
    None,
    Filter(id_prefix="dir/0"),
    Filter(id_prefix="dir/"),
    *(
        Filter(id_prefix=prefix)
        for prefix in ("it's", 'say "', "back\\", "mü", "müller 語 😀", "50%", "line\n", "a{", "100%", "a=b", "none")
    ),
    Filter(column="class", value="cat"),
    Filter(column="class", value='it\'s \\ "x"'),
    Filter(column='odd"name', value="1", id_prefix="dir/1"),
    Filter(column="class", value="nobody"),
]


@pytest.mark.parametrize("where", FILTERS, ids=str)
def test_hits_are_those_of_a_scan_in_the_order_of_insertion(engine, where):
    ids, codes, metadata = items()
    queries = draw(3, seed=1)
    rows = [row for row in range(len(ids)) if _matches(where, ids[row], metadata[row])]
    for query, *found in zip(
        queries,
        engine.search(queries, k=25, where=where),
        engine.search_radius(queries, radius=3, where=where),
        engine.search_radius(queries, radius=4, where=where, limit=7),
        strict=True,
    ):
        near = distances(query[None], codes)[0]
        order = sorted((int(near[row]), row) for row in rows)
        wanted = [(ids[row], distance, metadata[row]) for distance, row in order]
        assert found[0] == wanted[:25]
        assert found[1] == [one for one in wanted if one[1] <= 3]
        assert found[2] == [one for one in wanted if one[1] <= 4][:7]


def _matches(where, id, metadata):
    if where is None:
        return True
    return id.startswith(where.id_prefix or "") and (where.column is None or metadata.get(where.column) == where.value)


def test_reranked_hits_are_equal(sqlite, milvus):
    logits = np.random.default_rng(2).normal(size=(4, BITS)).astype(np.float32)
    for asked in ({"k": 30}, {"k": 5, "radius": 3}, {"k": 9, "where": Filter(id_prefix="dir/0")}):
        assert milvus.search_reranked(logits, **asked) == sqlite.search_reranked(logits, **asked)


def test_it_says_what_it_holds(engine):
    ids, codes, _ = items()
    assert (engine.bits, engine.encoder_identity, len(engine)) == (BITS, ENCODER, len(ids))
    assert engine.columns == ["class", 'odd"name']
    for row in (0, *range(ITEMS, len(ids))):
        assert np.array_equal(engine.code_of(ids[row]), codes[row])
    assert engine.read(lambda reader: reader.search(codes[:1], k=1)) == engine.search(codes[:1], k=1)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda engine: engine.search(draw(1), k=1, where=Filter(column="nix", value="1")),
            "no item has the metadata column",
        ),
        (lambda engine: engine.search(draw(1), k=1, where=Filter(column="class")), "needs a column and a value"),
        (lambda engine: engine.search(draw(1), k=1, where=Filter(id_prefix="a\0")), "in the filter"),
        (lambda engine: engine.search(np.zeros((1, 9), np.uint8), k=1), "12"),
        (lambda engine: engine.search(draw(1), k=0), "k = 0"),
        (lambda engine: engine.search_radius(draw(1), radius=-1), "radius = -1"),
        (lambda engine: engine.search_radius(draw(1), radius=1, limit=0), "limit = 0"),
        (lambda engine: engine.search_reranked(np.ones((1, 10), np.float32), k=1), "found 10 logits a query"),
        (lambda engine: engine.code_of("nobody"), "no item 'nobody'"),
        (lambda engine: engine.code_of("\udcff"), "no item"),
        (
            lambda engine: engine.add(["x"], draw(1), encoder_identity="b" * 64),
            "holds codes of the encoder aaaaaaaaaaaa",
        ),
        (lambda engine: engine.add(["x", "x"], draw(2), encoder_identity=ENCODER), "more than once"),
        (lambda engine: engine.add([""], draw(1), encoder_identity=ENCODER), "found the id ''"),
        (lambda engine: engine.add(["x"], draw(2), encoder_identity=ENCODER), "give one for each id"),
        (lambda engine: engine.remove(["dir/000.jpg", "nobody"]), "no item 'nobody': nothing was removed"),
    ],
)
def test_refusals_are_equal_and_change_nothing(engine, ask, message):
    with pytest.raises(CodesError, match=message):
        ask(engine)
    engine.refresh()
    assert len(engine) == ITEMS + len(ODD)


def test_items_are_added_replaced_and_removed(engine):
    new, code = ['new "1"', "new's 2"], np.array([[0b1111_0000, 0b1111_0000]], np.uint8)
    try:
        assert (
            engine.add(new, np.repeat(code, 2, axis=0), metadata=[{"class": "dog"}, {}], encoder_identity=ENCODER) == 2
        )
        assert [hit for hit in engine.search(code, k=200)[0] if hit.id in new] == [
            (new[0], 0, {"class": "dog"}),
            (new[1], 0, {}),
        ]
        assert (
            engine.add(new[:1], code ^ np.array([[255, 240]], np.uint8), encoder_identity=ENCODER) == 0
        )  # metadata stay
        assert engine.search_radius(code, radius=BITS, where=Filter(id_prefix="new "))[0] == [
            (new[0], BITS, {"class": "dog"})
        ]
        assert engine.add([new[0]], code, metadata=[{}], encoder_identity=ENCODER) == 0
        found = engine.search_radius(code, radius=0, where=Filter(id_prefix="new"))[0]
        assert found == [(new[0], 0, {}), (new[1], 0, {})]  # it kept its place
        assert len(engine) == ITEMS + len(ODD) + 2
    finally:
        assert engine.remove([*new, new[0]]) == 2
    with pytest.raises(UnknownItem):
        engine.code_of(new[0])
    assert len(engine) == ITEMS + len(ODD)
