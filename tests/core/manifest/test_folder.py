"""Codes on disk: whole or unread, resumable, never mixed, the same bytes for the same input."""

import json

import numpy as np
import pytest
from tests.core.manifest.conftest import BITS, BROKEN, IDS, entry, files, plan_of, write_all, write_shard

from nsh.core.codes_writer import CodesWriter
from nsh.core.former_codes import FormerCodes, set_aside
from nsh.core.manifest import HEADER, PLAN, read_codes
from nsh.errors import CodesError
from nsh.system.files import read_json, write_json


def test_what_is_written_is_read(tmp_path, codes):
    write_all(tmp_path / "codes", codes)
    found = read_codes(tmp_path / "codes")
    good = [row for row in range(7) if row != BROKEN]
    assert found.ids == [IDS[row] for row in good]
    assert np.array_equal(found.codes, codes[good])
    assert found.codes.dtype == np.uint8
    assert found.errors == [entry(BROKEN)]
    assert found.header["encoder_identity"] == "e" * 64
    assert found.header["notes"] == {"data_set": "photographs"}
    named = {key: found.header[key] for key in ("bits", "bytes", "images", "count", "errors", "bit_order")}
    assert named == {
        "bits": 12,
        "bytes": 2,
        "images": 7,
        "count": 6,
        "errors": 1,
        "bit_order": "most significant first",
    }


def test_the_files_are_plain_npy_and_json_lines(tmp_path, codes):
    write_all(tmp_path, codes)
    names = ["00000.jsonl", "00000.npy", "00001.jsonl", "00001.npy", "00002.jsonl", "00002.npy", "header.json"]
    assert list(files(tmp_path)) == names
    assert np.array_equal(np.load(tmp_path / "00001.npy"), codes[[4, 5]])
    rows = [json.loads(line) for line in (tmp_path / "00001.jsonl").read_text().splitlines()]
    assert [list(row) for row in rows] == [["id", "path", "sha256", "status", "error"]] * 3
    assert [row["status"] for row in rows] == ["error", "ok", "ok"]
    assert rows[0]["error"] == "the file is empty"


def test_the_same_codes_give_the_same_bytes(tmp_path, codes):
    write_all(tmp_path / "one", codes)
    write_all(tmp_path / "two", codes)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_an_unfinished_folder_is_not_read_and_is_gone_on_with(tmp_path, codes):
    writer = CodesWriter(tmp_path / "cut", plan_of())
    write_shard(writer, 1, codes)
    before = (tmp_path / "cut" / "00001.npy").stat().st_mtime_ns
    with pytest.raises(CodesError, match="incomplete"):
        read_codes(tmp_path / "cut")
    with pytest.raises(CodesError, match=r"lacks 2 shard\(s\), first 00000"):
        writer.finish()

    again = CodesWriter(tmp_path / "cut", plan_of())
    assert [(shard, list(rows)) for shard, rows in again.pending()] == [(0, [0, 1, 2]), (2, [6])]
    write_all(tmp_path / "cut", codes)
    write_all(tmp_path / "whole", codes)
    assert (tmp_path / "cut" / "00001.npy").stat().st_mtime_ns == before
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_a_shard_cut_between_its_two_files_is_made_again(tmp_path, codes):
    writer = CodesWriter(tmp_path, plan_of())
    write_shard(writer, 0, codes)
    (tmp_path / "00000.jsonl").unlink()
    assert [shard for shard, _ in writer.pending()] == [0, 1, 2]


def test_a_complete_folder_has_nothing_to_do(tmp_path, codes):
    write_all(tmp_path, codes)
    before = files(tmp_path)
    assert list(CodesWriter(tmp_path, plan_of()).pending()) == []
    assert files(tmp_path) == before


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {"encoder_identity": "f" * 64},
        {"bits": 16},
        {"images_sha256": "0" * 64},
        {"images": 8},
        {"shard_rows": 4},
        {"notes": {"data_set": "others"}},
    ],
)
def test_codes_of_two_encoders_never_mix(tmp_path, codes, changes, complete):
    writer = CodesWriter(tmp_path, plan_of())
    write_shard(writer, 0, codes)
    if complete:
        write_all(tmp_path, codes)
    before = files(tmp_path)
    with pytest.raises(CodesError, match="another encoder or of other images"):
        CodesWriter(tmp_path, plan_of(**changes))
    assert files(tmp_path) == before


@pytest.mark.parametrize("place", [HEADER, PLAN])
def test_codes_of_an_earlier_schema_are_refused_and_stay(tmp_path, codes, place):
    """Their encoder has no identity: the header named its file."""
    write_all(tmp_path, codes)
    former = {"schema": 1, "encoder_sha256": "e" * 64, "bits": BITS, "images": len(IDS), "shard_rows": 3}
    (tmp_path / HEADER).unlink()
    write_json(tmp_path / place, former)
    before = files(tmp_path)
    message = "have schema 1, this version reads 2: encode again into a new folder"
    for use in (lambda: CodesWriter(tmp_path, plan_of()), lambda: set_aside(tmp_path, plan_of(), ids=set(IDS))):
        with pytest.raises(CodesError, match=message):
            use()
    assert files(tmp_path) == before


@pytest.mark.parametrize("complete", [False, True])
def test_a_folder_of_a_version_without_nested_codes_goes_on(tmp_path, codes, complete):
    write_shard(CodesWriter(tmp_path, plan_of()), 0, codes)
    if complete:
        write_all(tmp_path, codes)
    place = tmp_path / (HEADER if complete else PLAN)
    document = read_json(place)
    del document["nested"]
    write_json(place, document)
    writer = CodesWriter(tmp_path, plan_of())
    assert [shard for shard, _ in writer.pending()] == ([] if complete else [1, 2])
    write_all(tmp_path, codes)
    assert read_codes(tmp_path).header["nested"] == []


def test_the_lengths_of_nested_codes_are_in_the_header(tmp_path, codes):
    write_all(tmp_path, codes, plan_of(nested=(4, 8)))
    assert read_codes(tmp_path).header["nested"] == [4, 8]
    assert list(CodesWriter(tmp_path, plan_of(nested=(4, 8))).pending()) == []


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(CodesError, match="holds other files than codes"):
        CodesWriter(tmp_path, plan_of())
    assert list(files(tmp_path)) == ["holiday.jpg"]


def test_a_shard_must_fit_its_entries(tmp_path, codes):
    writer = CodesWriter(tmp_path, plan_of())
    good = [entry(row) for row in (0, 1, 2)]
    with pytest.raises(CodesError, match="3 images and a code for each good one: found 2 images"):
        writer.write(0, good[:2], codes[:2])
    with pytest.raises(CodesError, match="found 3 images, 3 of them good, and 2 codes"):
        writer.write(0, good, codes[:2])
    with pytest.raises(CodesError, match="12 bits"):
        writer.write(0, good, codes[:3, :1])
    with pytest.raises(CodesError, match="zero bits"):
        writer.write(0, good, codes[:3] | 1)
    assert list(files(tmp_path)) == ["plan.json"]


def test_a_folder_that_changed_hands_takes_no_shard_of_the_former_images(tmp_path, codes):
    write_all(tmp_path, codes)
    former = CodesWriter(tmp_path, plan_of())
    now = plan_of([*IDS, "z.jpg"])
    assert set_aside(tmp_path, now, ids={*IDS, "z.jpg"}) == 0
    assert CodesWriter(tmp_path, now).plan == now
    with pytest.raises(CodesError, match="begun for other images"):
        write_shard(former, 0, codes)
    known = FormerCodes(tmp_path, bits=BITS).around(0, IDS[0], IDS[2])
    assert known.entries[IDS[1]] == entry(1)
    assert np.array_equal(known.codes[entry(1).sha256], codes[1])


def test_shards_of_other_images_are_not_declared_complete(tmp_path, codes):
    writer = CodesWriter(tmp_path, plan_of(images_sha256="0" * 64))
    for shard, _ in writer.pending():
        write_shard(writer, shard, codes)
    with pytest.raises(CodesError, match="holds shards of other images"):
        writer.finish()


def test_a_shard_that_is_written_again_opens_the_folder_and_an_equal_one_does_not(tmp_path, codes):
    write_all(tmp_path, codes)
    before = files(tmp_path)
    writer = CodesWriter(tmp_path, plan_of())
    write_shard(writer, 0, codes)
    assert files(tmp_path) == before
    write_shard(writer, 0, codes ^ np.uint8(16))
    with pytest.raises(CodesError, match="is incomplete"):
        read_codes(tmp_path)
    write_shard(writer, 0, codes)
    writer.finish()
    assert files(tmp_path) == before
