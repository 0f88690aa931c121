"""Metadata from CSV files."""

import unicodedata

import pytest

from nsh.errors import DataError
from nsh.serving.index.metadata_csv import read_metadata


def write(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_each_id_gets_its_columns_and_those_without_a_line_none(tmp_path):
    path = write(tmp_path, 'id,class,year\r\nb.jpg,"cat, black",\r\na.jpg,dog,2026\r\nother.jpg,x,y\r\n', "utf-8-sig")
    joined = read_metadata(path, ["a.jpg", "b.jpg", "c.jpg"])
    assert joined.items == [{"class": "dog", "year": "2026"}, {"class": "cat, black"}, {}]
    assert joined.describe() == "2 of 3 items have a line (not 'c.jpg'); 1 lines name no item ('other.jpg')"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("written", ["./{}", "{} ", "a//../{}", "{}"])
def test_a_line_may_spell_an_id_otherwise(tmp_path, form, written):
    name = written.format("bär/müller.png")
    text = f' id ,class\r\n{unicodedata.normalize("NFC", name)},x\r\n"bär\\1.png",y\r\n,\r\n'
    ids = [unicodedata.normalize(form, one) for one in ("bär/müller.png", "bär/1.png")]
    joined = read_metadata(write(tmp_path, text, "utf-8-sig"), ids)
    assert joined.items == [{"class": "x"}, {"class": "y"}]
    assert joined.describe() == "2 of 2 items have a line"


def test_equal_names_come_before_like_ones(tmp_path):
    ids = ["mu\u0308.png", "m\u00fc.png", "b.png", " b.png"]
    text = "id,class\nm\u00fc.png,composed\nmu\u0308.png,decomposed\n./b.png,neither\n"
    joined = read_metadata(write(tmp_path, text), ids)
    assert joined.items == [{"class": "decomposed"}, {"class": "composed"}, {}, {}]
    assert joined.unmatched == ["./b.png"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,class\na.jpg,x\n", r"has no column 'id' \(found name, class\)"),
        ("", r"has no column 'id' \(found nothing\)"),
        ("id,class\na.jpg,x\na.jpg,y\n", "line 3 names 'a.jpg' again"),
        ("id,class\na.jpg,x\n./a.jpg,y\n", r"names 'a.jpg' again, as 'a.jpg' and './a.jpg'"),
        ("id,class,class\na.jpg,x,y\n", "two columns of one name"),
        ("id,class\na.jpg\n", "line 2 has another number of cells"),
        ("id,class\na.jpg,x,y\n", "line 2 has another number of cells"),
        ("id,class\nz.jpg,x\n", "names none of the 1 ids that are added, such as 'a.jpg'"),
        ('id,class\na.jpg,"x\n', "cannot be read as a CSV file"),
    ],
)
def test_what_is_no_table_of_metadata(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_metadata(write(tmp_path, text), ["a.jpg"])


def test_a_file_that_is_not_there_or_not_utf8(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_metadata(tmp_path / "absent.csv", ["a.jpg"])
    with pytest.raises(DataError, match="in UTF-8"):
        read_metadata(write(tmp_path, "id,class\na.jpg,é\n", "latin-1"), ["a.jpg"])
