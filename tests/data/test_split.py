import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from nsh.data.split import Rows, Split, read_header, read_part, write
from nsh.errors import DataError

GALLERY = Rows(ids=["b/ü 1.png", "a\n2.png", "c.png"], labels=[(0, 2), (1,), ()], sha256=["1" * 64, "2" * 64, "3" * 64])
SPLIT = Split(
    data_set="folder",
    classes=("x", "y", "z"),
    seed=7,
    parts={
        "train": Rows(ids=GALLERY.ids[:1], labels=[(0, 2)], sha256=GALLERY.sha256[:1]),
        "query": Rows(ids=["q.png"], labels=[(2,)], sha256=["4" * 64]),
        "gallery": GALLERY,
    },
    unreadable=[("bad\u2028.png", "the file is empty")],
    duplicates_dropped=5,
)


def unlabelled(split: Split) -> Split:
    parts = {part: replace(rows, labels=None) for part, rows in split.parts.items()}
    return replace(split, classes=None, parts=parts)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write(SPLIT, tmp_path / "split")
    part = read_part(tmp_path / "split", "gallery")
    assert part.ids == GALLERY.ids
    assert part.sha256 == GALLERY.sha256
    np.testing.assert_array_equal(part.labels, [[True, False, True], [False, True, False], [False, False, False]])
    assert part.labels.dtype == np.bool_
    assert read_part(tmp_path / "split", "train").ids == ["b/ü 1.png"]


def test_the_header_counts_and_signs(tmp_path: Path) -> None:
    write(SPLIT, tmp_path / "split")
    header = read_header(tmp_path / "split")
    digest = hashlib.sha256()
    for part in ("train", "query", "gallery"):
        rows = SPLIT.parts[part]
        for name, labels, sha256 in zip(rows.ids, rows.labels, rows.sha256, strict=True):
            digest.update((json.dumps([part, name, list(labels), sha256]) + "\n").encode())
    assert header == {
        "data_set": "folder",
        "classes": ["x", "y", "z"],
        "seed": 7,
        "counts": {"train": 1, "query": 1, "gallery": 3},
        "unreadable": 1,
        "duplicates_dropped": 5,
        "sha256": digest.hexdigest(),
    }


def test_without_labels_the_column_is_null(tmp_path: Path) -> None:
    write(unlabelled(SPLIT), tmp_path / "split")
    assert read_part(tmp_path / "split", "gallery").labels is None
    table = pq.read_table(tmp_path / "split/gallery.parquet")
    assert table["labels"].null_count == 3
    assert [str(field.type) for field in table.schema] == ["string", "list<element: int32>", "string"]


def test_unreadable_images_are_listed(tmp_path: Path) -> None:
    write(SPLIT, tmp_path / "split")
    text = (tmp_path / "split/unreadable.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line) for line in text.splitlines()] == [{"id": "bad\u2028.png", "error": "the file is empty"}]


def test_the_same_split_gives_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("one", "two"):
        write(SPLIT, tmp_path / name)
        written.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) == {"train.parquet", "query.parquet", "gallery.parquet", "split.json", "unreadable.jsonl"}


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: replace(rows, ids=rows.ids[::-1]),
        lambda rows: replace(rows, labels=[(0,), *rows.labels[1:]]),
        lambda rows: replace(rows, sha256=["5" * 64, *rows.sha256[1:]]),
    ],
)
def test_the_digest_sees_order_labels_and_content(tmp_path: Path, change) -> None:
    write(SPLIT, tmp_path / "a")
    write(replace(SPLIT, parts={**SPLIT.parts, "gallery": change(GALLERY)}), tmp_path / "b")
    assert read_header(tmp_path / "a")["sha256"] != read_header(tmp_path / "b")["sha256"]


def test_nothing_is_written_when_writing_fails(tmp_path: Path) -> None:
    broken = replace(SPLIT, parts={**SPLIT.parts, "gallery": replace(GALLERY, sha256=["short"])})
    with pytest.raises(ValueError, match=r"."):
        write(broken, tmp_path / "split")
    assert not list(tmp_path.iterdir())


def test_no_split_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run `dvc repro split`"):
        read_part(tmp_path, "query")


def test_an_unknown_part_names_the_known(tmp_path: Path) -> None:
    write(SPLIT, tmp_path / "split")
    with pytest.raises(DataError, match="no part 'test', allowed are train, query, gallery"):
        read_part(tmp_path / "split", "test")


def test_parts_of_two_splits_do_not_mix(tmp_path: Path) -> None:
    write(SPLIT, tmp_path / "split")
    (tmp_path / "split/gallery.parquet").write_bytes((tmp_path / "split/query.parquet").read_bytes())
    with pytest.raises(DataError, match=r"has 1 rows, split\.json says 3"):
        read_part(tmp_path / "split", "gallery")
