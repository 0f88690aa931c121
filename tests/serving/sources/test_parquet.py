"""Images in Parquet files: the codes of the same bytes, ids from where a file has them, damage in one sentence."""

import pytest
from tests.serving.sources.folders import content

from nsh.core.manifest import read_codes
from nsh.errors import DataError
from nsh.serving import bulk
from nsh.serving.bulk import encode_files
from nsh.serving.inputs import find_images

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'nsh[parquet]'")
pq = pytest.importorskip("pyarrow.parquet")

from nsh.serving.sources import parquet  # noqa: E402


def write(path, columns, *, rows=3):
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


def images_in(path):
    return find_images([str(path)], root=str(path.parent))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_column_of_bytes_gives_the_codes_of_the_files(encoder, photos, local, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(bulk, "SHARD_ROWS", 4)
    contents = pa.array([(photos / name).read_bytes() for name in local.images.ids], kind)
    path = write(tmp_path / "0.parquet", {"id": local.images.ids, "jpg": contents, "md5": [b""] * len(contents)})
    encode_files(encoder, images_in(path), out=tmp_path / "codes", batch=2)
    monkeypatch.undo()
    codes, files = read_codes(tmp_path / "codes"), read_codes(local.out)
    assert (codes.ids, codes.errors) == (files.ids, files.errors)
    assert codes.codes.tolist() == files.codes.tolist()


def test_the_struct_of_hugging_face_gives_its_paths_and_rows_where_there_is_none(tmp_path):
    images = [{"bytes": b"a", "path": "a.png"}, {"bytes": b"b", "path": None}, {"bytes": None, "path": "c.png"}, None]
    (tmp_path / "train").mkdir()
    write(tmp_path / "train/0.parquet", {"image": images, "label": [1, 2, 3, 4]})
    found = find_images([str(tmp_path)])
    assert found.ids == ["a.png", "train/0.parquet/1", "c.png", "train/0.parquet/3"]
    contents = [one if isinstance(one, bytes) else str(one) for one in found.source.read(found.ids, first=0)]
    assert contents == [b"a", b"b", "the row has no bytes", "the row has no bytes"]


def test_ids_are_those_of_a_column_else_rows(tmp_path):
    assert images_in(write(tmp_path / "a.parquet", {"key": [7, 8], "jpg": [b"a", b"b"]})).ids == ["7", "8"]
    found = images_in(write(tmp_path / "b.parquet", {"key": [0.5, 1.5], "jpg": [b"a", b"b"]}, rows=1))
    assert found.ids == ["b.parquet/0", "b.parquet/1"]
    assert list(found.source.read(found.ids[1:], first=1)) == [b"b"]


def test_an_id_that_leads_out_and_an_image_that_is_too_large_are_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "LARGEST", 3)
    found = images_in(write(tmp_path / "a.parquet", {"id": ["../a", "b", "c"], "jpg": [b"a", b"long", b"c"]}))
    assert found.ids == ["../a", "b", "c"]
    escaped, large, good = found.source.read(found.ids, first=0)
    assert str(escaped) == "its name leads out of the archive"
    assert "bytes allowed" in str(large)
    assert good == b"c"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ["a"]}, "a.parquet has 0 columns of bytes (none): allowed is one"),
        ({"left": [b"a"], "right": [b"b"]}, "a.parquet has 2 columns of bytes (left, right): allowed is one"),
        ({"id": ["a", "a"], "jpg": [b"a", b"b"]}, "a.parquet names 'a' twice"),
    ],
)
def test_a_file_whose_images_or_ids_cannot_be_told_is_one_sentence(tmp_path, columns, message):
    with pytest.raises(DataError) as refused:
        images_in(write(tmp_path / "a.parquet", columns))
    assert message in str(refused.value)


def test_a_row_group_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "LARGEST_GROUP", 100)
    with pytest.raises(DataError, match=r"row group 0 of a\.parquet has \d+ bytes of images, allowed are 100"):
        images_in(write(tmp_path / "a.parquet", {"jpg": [b"a" * 200]}))


def test_a_damaged_file_is_one_sentence(tmp_path):
    path = write(tmp_path / "a.parquet", {"id": ["a"], "jpg": [b"a" * 500]})
    whole = path.read_bytes()
    for content_of_file in (b"", b"PAR1", whole[:-20]):
        path.write_bytes(content_of_file)
        with pytest.raises(DataError, match=r"a\.parquet is no whole Parquet file"):
            images_in(path)


def test_a_file_in_a_store_gives_what_it_gives_here(encoder, photos, local, tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install 'nsh[remote]'")
    path = write(tmp_path / "a.parquet", {"jpg": [(photos / name).read_bytes() for name in local.images.ids]})
    fsspec.filesystem("memory").pipe("/tables/a.parquet", path.read_bytes())
    encode_files(encoder, find_images(["memory://tables"]), out=tmp_path / "remote")
    encode_files(encoder, images_in(path), out=tmp_path / "codes")
    assert content(tmp_path / "remote") == content(tmp_path / "codes")
    fsspec.filesystem("memory").rm("/tables", recursive=True)
