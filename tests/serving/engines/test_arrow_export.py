"""Exports to Parquet and Lance have every item in the order of insertion, and are complete or not there."""

import numpy as np
import pytest
from tests.commands import run_nsh

from nsh.errors import CodesError, IndexBusy
from nsh.serving.engines import arrow_export
from nsh.serving.engines.arrow_export import export_to_lance, export_to_parquet
from nsh.serving.index import Index, blocks

ENCODER = "a" * 64
IDS = ["z's", 'a "b"', "back\\slash", "müller 語 😀", "a", *(f"{number}.jpg" for number in range(20))]

parquet = pytest.importorskip("pyarrow.parquet", reason="needs Arrow: pip install 'nsh[parquet]'")


def draw(count):
    return np.random.default_rng(0).integers(0, 256, (count, 3), np.uint8)


def make(folder, *, metadata=None):
    """An index of 24 bits."""
    made = Index.create(folder, bits=24, encoder_identity=ENCODER)
    made.add(IDS, draw(len(IDS)), metadata=metadata, encoder_identity=ENCODER)
    return made


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "KEYS", 8)
    metadata = [{"class": id, 'odd "name"': "1"} if number % 2 else {} for number, id in enumerate(IDS)]
    return make(tmp_path / "index", metadata=metadata)


def read(form, path):
    if form == "parquet":
        return parquet.read_table(path)
    lance = pytest.importorskip("lance", reason="needs Lance: pip install 'nsh[lance]'")
    return lance.dataset(path).to_table()


WRITERS = {"parquet": export_to_parquet, "lance": export_to_lance}


@pytest.fixture(params=WRITERS)
def form(request):
    if request.param == "lance":
        pytest.importorskip("lance", reason="needs Lance: pip install 'nsh[lance]'")
    return request.param


def test_every_item_is_there_in_the_order_of_insertion(form, index, tmp_path):
    index.remove(IDS[8:16])
    WRITERS[form](index, tmp_path / "new" / "target")
    table = read(form, tmp_path / "new" / "target")
    rows, kept = table.to_pylist(), [*range(8), *range(16, len(IDS))]
    assert [row["id"] for row in rows] == [IDS[number] for number in kept]
    assert [bytes(row["code"]) for row in rows] == [bytes(code) for code in draw(len(IDS))[kept]]
    wanted = [{"class": IDS[n], 'odd "name"': "1"} if n % 2 else {"class": None, 'odd "name"': None} for n in kept]
    assert [row["metadata"] or {"class": None, 'odd "name"': None} for row in rows] == wanted
    assert table.schema.metadata[b"nsh.encoder_identity"] == ENCODER.encode()
    assert table.schema.metadata[b"nsh.bits"] == b"24"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["target"]


def test_no_items_and_no_metadata_are_an_export_too(form, tmp_path):
    empty = Index.create(tmp_path / "empty", bits=24, encoder_identity=ENCODER)
    WRITERS[form](empty, tmp_path / "target")
    table = read(form, tmp_path / "target")
    assert (len(table), table.schema.names) == (0, ["id", "code"])


def test_lance_finds_the_nearest(index, tmp_path):
    lance = pytest.importorskip("lance", reason="needs Lance: pip install 'nsh[lance]'")
    export_to_lance(index, tmp_path / "target")
    query = draw(len(IDS))[5] ^ 1
    asked = {"column": "code", "q": query, "k": 1, "metric": "hamming"}
    assert lance.dataset(tmp_path / "target").to_table(nearest=asked)["id"].to_pylist() == [IDS[5]]


def test_what_is_there_is_not_replaced(form, index, tmp_path):
    (tmp_path / "target").write_text("mine")
    with pytest.raises(CodesError, match=r"there is something at .*target already"):
        WRITERS[form](index, tmp_path / "target")
    assert (tmp_path / "target").read_text() == "mine"


@pytest.mark.parametrize("failure", [KeyboardInterrupt, "changed"])
def test_half_an_export_is_none(form, index, tmp_path, failure):
    def interrupt(iterable, **_):
        for number, batch in enumerate(iterable):
            if number == 2 and failure is KeyboardInterrupt:
                raise KeyboardInterrupt
            if number == 2:
                Index.open(tmp_path / "index").remove(IDS[-1:])
            yield batch

    with pytest.raises((KeyboardInterrupt, IndexBusy)):
        WRITERS[form](index, tmp_path / "target", progress=interrupt)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]
    WRITERS[form](Index.open(tmp_path / "index"), tmp_path / "target")
    assert len(read(form, tmp_path / "target")) == len(Index.open(tmp_path / "index"))


def test_groups_of_rows_are_joined(index, tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_export, "_ROWS", 10)
    export_to_parquet(index, tmp_path / "target")
    assert parquet.ParquetFile(tmp_path / "target").num_row_groups == 2
    assert read("parquet", tmp_path / "target")["id"].to_pylist() == IDS


def test_the_command_exports_and_refuses_in_one_sentence(tmp_path):
    make(tmp_path / "index")
    words = ["index", "export", tmp_path / "codes.parquet", "--to", "parquet", "--index", tmp_path / "index"]
    done, again = run_nsh(*words), run_nsh(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}/codes.parquet: {len(IDS)} items of 24 bits, of the encoder {ENCODER}\n"
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == (
        f"error: there is something at {tmp_path}/codes.parquet already: name a new target, or delete it\n"
    )


def test_a_url_is_no_folder_to_build_or_to_export_from(tmp_path):
    for words in (["build", tmp_path], ["export", tmp_path / "codes.parquet", "--to", "parquet"]):
        done = run_nsh("index", *words, "--index", "milvus://127.0.0.1:1/photos")
        assert (done.returncode, done.stdout) == (2, "")
        assert "this command needs the folder of an index" in done.stderr
    assert list(tmp_path.iterdir()) == []
