"""Codes on disk: whole or unread, resumable, never mixed, the same bytes for the same input."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsh.core.codes_writer import CodesWriter
from nsh.core.former_codes import FormerCodes, set_aside
from nsh.core.manifest import HEADER, PLAN, Entry, Plan, codes_path, digest_ids, manifest_path, read_codes
from nsh.errors import CodesError
from nsh.system.files import read_json, sha256_file, write_json

IDS = [f"a/{row}.jpg" for row in range(7)]
BITS = 12
BROKEN = 3  # the row whose image cannot be read


@pytest.fixture
def codes():
    packed = np.random.default_rng(0).integers(0, 256, (7, 2), dtype=np.uint8)
    packed[:, 1] &= 0xF0
    return packed


def plan_of(ids=IDS, **changes) -> Plan:
    values = {"encoder_identity": "e" * 64, "bits": BITS, "images": len(ids), "images_sha256": digest_ids(ids)}
    return Plan(**{**values, "shard_rows": 3, "notes": {"data_set": "photographs"}, **changes})


def entry(row: int) -> Entry:
    if row == BROKEN:
        return Entry(id=IDS[row], path=IDS[row], status="error", error="the file is empty")
    return Entry(id=IDS[row], path=IDS[row], sha256=f"{row:064x}")


def write_shard(writer: CodesWriter, shard: int, codes) -> None:
    rows = writer.plan.rows(shard)
    good = [row for row in rows if row != BROKEN]
    writer.write(shard, [entry(row) for row in rows], codes[good])


def write_all(folder, codes, plan=None) -> None:
    writer = CodesWriter(folder, plan or plan_of())
    for shard, _ in writer.pending():
        write_shard(writer, shard, codes)
    writer.finish()


def files(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


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


def damage_codes(folder):
    content = bytearray((folder / "00001.npy").read_bytes())
    content[-1] ^= 0x80
    (folder / "00001.npy").write_bytes(content)


def change_header(folder, **changes):
    header = json.loads((folder / "header.json").read_text())
    (folder / "header.json").write_text(json.dumps({**header, **changes}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_codes, "00001.npy is not the file"),
        (lambda folder: (folder / "00002.npy").unlink(), "00002.npy is missing"),
        (lambda folder: (folder / "00000.jsonl").write_text(""), "00000.jsonl is not the file"),
        (lambda folder: (folder / "header.json").write_text("{"), "header.json"),
        (lambda folder: (folder / "header.json").write_text("[]"), "no JSON object"),
        (lambda folder: (folder / "header.json").write_text('{"schema": 2}'), "lacks bits"),
        (lambda folder: change_header(folder, schema=9), "have schema 9, this version reads 2"),
        (lambda folder: change_header(folder, count=5), "damaged"),
        (lambda folder: change_header(folder, bits=24), "must be a uint8 array|damaged"),
    ],
)
def test_damage_is_named(tmp_path, codes, damage, message):
    write_all(tmp_path, codes)
    damage(tmp_path)
    with pytest.raises(CodesError, match=message):
        read_codes(tmp_path)


def describe_anew(directory):
    """Make the header fit the files, so that only their content is wrong."""
    header = read_json(directory / HEADER)
    for number, shard in enumerate(header["shards"]):
        shard["codes_sha256"] = sha256_file(codes_path(directory, number))
        shard["manifest_sha256"] = sha256_file(manifest_path(directory, number))
    write_json(directory / HEADER, header)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"no array", b'{"id": 1', b"[]", b'{"other": 1}', b"\xff"])
@pytest.mark.parametrize("place", [codes_path, manifest_path])
def test_a_shard_that_is_none_is_damage_whatever_its_digest(tmp_path, codes, content, place):
    write_all(tmp_path, codes)
    place(tmp_path, 0).write_bytes(content)
    describe_anew(tmp_path)
    with pytest.raises(CodesError, match="are damaged"):
        read_codes(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [{"bits": "12"}, {"shards": 1}, {"shards": [1]}, {"shards": [{}]}, {"images": None}, {"encoder_identity": 1}],
)
def test_a_header_of_other_types_is_damage(tmp_path, codes, changes):
    write_all(tmp_path, codes)
    write_json(tmp_path / HEADER, read_json(tmp_path / HEADER) | changes)
    with pytest.raises(CodesError, match="are damaged"):
        read_codes(tmp_path)


def test_no_folder_is_an_error(tmp_path):
    with pytest.raises(CodesError, match="no codes can be read"):
        read_codes(tmp_path / "nowhere")


def test_an_id_twice_is_refused(tmp_path):
    writer = CodesWriter(tmp_path, plan_of(ids=["a", "a"]))
    writer.write(0, [Entry(id="a"), Entry(id="a")], np.zeros((2, 2), np.uint8))
    writer.finish()
    with pytest.raises(CodesError, match="names an image twice"):
        read_codes(tmp_path)


def test_no_image_at_all(tmp_path):
    CodesWriter(tmp_path, plan_of(ids=[])).finish()
    found = read_codes(tmp_path)
    assert (found.ids, found.codes.shape, found.errors) == ([], (0, 2), [])


def test_every_image_broken(tmp_path):
    writer = CodesWriter(tmp_path, plan_of(ids=["a"]))
    writer.write(0, [Entry(id="a", status="error", error="not an image")], np.zeros((0, 2), np.uint8))
    writer.finish()
    assert read_codes(tmp_path).header["errors"] == 1


NAMES = st.lists(st.text(st.characters(), max_size=8), unique=True, max_size=6)  # lone surrogates and newlines, too


@given(ids=NAMES)
def test_any_name_comes_back_as_it_was(tmp_path_factory, ids):
    folder = tmp_path_factory.mktemp("codes")
    writer = CodesWriter(folder, plan_of(ids=ids))
    for shard, rows in writer.pending():
        writer.write(shard, [Entry(id=ids[row], path=ids[row]) for row in rows], np.zeros((len(rows), 2), np.uint8))
    writer.finish()
    assert read_codes(folder).ids == ids


@given(ids=NAMES, other=NAMES)
def test_the_digest_tells_lists_apart(ids, other):
    assert (digest_ids(ids) == digest_ids(other)) == (ids == other)


def test_the_plan_counts_shards():
    assert [list(plan_of().rows(shard)) for shard in range(plan_of().shards)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert dataclasses.replace(plan_of(), images=6).shards == 2
    assert plan_of(ids=[]).shards == 0


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
