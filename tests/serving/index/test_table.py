"""Metadata from CSV files."""

import pytest

from nsh.core.errors import DataError
from nsh.serving.index.table import read_metadata


def write(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_each_id_gets_its_columns_and_those_without_a_line_none(tmp_path):
    path = write(tmp_path, 'id,class,year\r\nb.jpg,"cat, black",\r\na.jpg,dog,2026\r\nother.jpg,x,y\r\n', "utf-8-sig")
    assert read_metadata(path, ["a.jpg", "b.jpg", "c.jpg"]) == [
        {"class": "dog", "year": "2026"},
        {"class": "cat, black"},
        {},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,class\na.jpg,x\n", r"has no column 'id' \(found name, class\)"),
        ("", r"has no column 'id' \(found nothing\)"),
        ("id,class\na.jpg,x\na.jpg,y\n", "line 3 names 'a.jpg' again"),
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
