"""Codes on disk that are damaged are named, and not read."""

import json

import pytest
from tests.core.manifest.conftest import write_all

from nsh.core.manifest import HEADER, codes_path, manifest_path, read_codes
from nsh.errors import CodesError
from nsh.system.files import read_json, sha256_file, write_json


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
