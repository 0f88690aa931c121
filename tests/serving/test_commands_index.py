"""`nsh index`: what it says, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.commands import run_nsh

from nsh.core.codes import first_bits
from nsh.core.codes_writer import CodesWriter
from nsh.core.manifest import Entry, Plan, digest_ids, read_codes
from nsh.serving.index import Index

ENCODER = "a" * 64


def nsh(*arguments, stdin=""):
    return run_nsh("index", *arguments, stdin=stdin)


def write_codes(folder, ids, *, seed=0, encoder=ENCODER, nested=()):
    codes = np.random.default_rng(seed).integers(0, 256, (len(ids), 8), dtype=np.uint8)
    plan = Plan(encoder_identity=encoder, bits=64, images=len(ids), images_sha256=digest_ids(ids), nested=nested)
    writer = CodesWriter(folder, plan)
    writer.write(0, [Entry(id=name) for name in ids], codes)
    writer.finish()
    return folder


@pytest.fixture
def codes(tmp_path):
    return write_codes(tmp_path / "codes", [f"cats/{row}.jpg" for row in range(40)])


def test_build_add_remove_and_info(tmp_path, codes):
    (tmp_path / "labels.csv").write_text("id,class\ncats/3.jpg,tabby\n")
    built = nsh("build", codes, "--index", tmp_path / "index", "--metadata", tmp_path / "labels.csv")
    assert built.returncode == 0, built.stderr
    assert "items      40, version 1" in built.stdout
    assert "metadata   class" in built.stdout
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []

    more = write_codes(tmp_path / "more", ["cats/3.jpg", "dogs/1.jpg"], seed=1)
    added = nsh("add", more, "--index", tmp_path / "index", "--json")
    assert added.returncode == 0, added.stderr
    described = json.loads(added.stdout)
    assert (described["added"], described["updated"], described["items"]) == (1, 1, 41)

    removed = nsh("remove", "dogs/1.jpg", "-", "--index", tmp_path / "index", stdin="cats/0.jpg\ncats/1.jpg\n")
    assert removed.returncode == 0, removed.stderr
    assert removed.stdout == f"{tmp_path / 'index'}: 3 removed, 38 there now\n"

    described = json.loads(nsh("info", tmp_path / "index", "--json").stdout)
    assert described == {
        "items": 38,
        "bits": 64,
        "encoder_identity": ENCODER,
        "version": 3,
        "metadata": ["class"],
    }


def test_an_index_keeps_the_first_bits_of_nested_codes_and_of_what_is_added(tmp_path):
    codes = write_codes(tmp_path / "codes", ["a.jpg", "b.jpg", "c.jpg"], nested=(8, 20))
    more = write_codes(tmp_path / "more", ["c.jpg", "d.jpg"], seed=1, nested=(8, 20))
    built = nsh("build", codes, "--index", tmp_path / "index", "--bits", 20, "--json")
    assert built.returncode == 0, built.stderr
    described = json.loads(built.stdout)
    assert (described["bits"], described["encoder_identity"]) == (20, ENCODER)
    added = nsh("add", more, "--index", tmp_path / "index")
    assert added.stdout == f"{tmp_path / 'index'}: 1 added, 1 updated, 4 there now\n"
    index = Index.open(tmp_path / "index")
    whole = {**codes_in(codes), **codes_in(more)}
    assert {name: index.code_of(name).tolist() for name in whole} == {
        name: first_bits(code[None], bits=20)[0].tolist() for name, code in whole.items()
    }
    followed = nsh("update", more, "--index", tmp_path / "index", "--json")
    assert json.loads(followed.stdout) == {"added": 0, "updated": 0, "removed": 2, "items": 2}


def codes_in(folder):
    read = read_codes(folder)
    return dict(zip(read.ids, read.codes, strict=True))


def test_names_match_in_any_spelling_and_what_does_not_is_said(tmp_path):
    codes = write_codes(tmp_path / "codes", ["mu\u0308ller.png", "c.png", "d.png"])
    (tmp_path / "labels.csv").write_bytes("id,class\r\nm\u00fcller.png,a\r\n./c.png,b\r\nwrong.png,c\r\n".encode())
    labels = ["--metadata", tmp_path / "labels.csv"]
    built = nsh("build", codes, "--index", tmp_path / "index", *labels)
    assert "joined     2 of 3 items have a line (not 'd.png'); 1 lines name no item ('wrong.png')" in built.stdout
    hits = Index.open(tmp_path / "index").search(np.zeros((1, 8), np.uint8), k=3)[0]
    assert {hit.id: hit.metadata for hit in hits} == {
        "mu\u0308ller.png": {"class": "a"},
        "c.png": {"class": "b"},
        "d.png": {},
    }
    added = json.loads(nsh("add", codes, "--index", tmp_path / "index", *labels, "--json").stdout)
    assert (added["items_without_line"], added["lines_without_item"]) == (1, 1)
    removed = nsh("remove", "-", "--index", tmp_path / "index", stdin="\ufeffm\u00fcller.png\r\n./c.png \r\n")
    assert removed.returncode == 0, removed.stderr
    assert removed.stdout == f"{tmp_path / 'index'}: 2 removed, 1 there now\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "{other}", "--index", "{index}"], "use the index's own, or build another index"),
        (["build", "{codes}", "--index", "{index}"], "is not empty"),
        (["build", "{codes}", "{other}", "--index", "{new}"], "found codes of several encoders"),
        (["build", "{codes}", "{codes}", "--index", "{new}"], "more than once"),
        (["build", "{codes}", "--index", "{new}", "--bits", "32"], "the codes have 64 and cannot be cut"),
        (["add", "{codes}", "--index", "{short}"], "found 32 bits, the codes have 64 and cannot be cut"),
        (["add", "{other}", "--index", "{short}"], "use the index's own, or build another index"),
        (["remove", "nobody.jpg", "--index", "{index}"], "no item 'nobody.jpg': nothing was removed"),
        (["info", "{new}"], "there is no index in"),
    ],
)
def test_refusals_are_one_sentence_and_leave_nothing(tmp_path, codes, arguments, message):
    nsh("build", codes, "--index", tmp_path / "index")
    other = write_codes(tmp_path / "other", ["x.jpg"], encoder="b" * 64)
    Index.create(tmp_path / "short", bits=32, encoder_identity=ENCODER).close()
    names = {"codes": codes, "other": other} | {name: tmp_path / name for name in ("index", "new", "short")}
    result = nsh(*(argument.format(**names) for argument in arguments))
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codes", "index", "other", "short"]
    assert Index.open(tmp_path / "index").version == 1


def test_a_mounted_volume_is_a_place_for_an_index(tmp_path, codes, mount):
    volume = tmp_path / "volume"
    volume.mkdir()
    mount("-t", "tmpfs", "none", volume)
    (volume / "lost+found").mkdir()
    built = nsh("build", codes, "--index", volume)
    assert built.returncode == 0, built.stderr
    assert sorted(path.name for path in volume.iterdir()) == ["index.sqlite", "lost+found"]
    assert len(Index.open(volume)) == 40


def test_a_volume_without_room_is_one_sentence_and_left_empty(tmp_path, mount):
    volume = tmp_path / "volume"
    volume.mkdir()
    mount("-t", "tmpfs", "-o", "size=1200k", "none", volume)
    many = write_codes(tmp_path / "many", [f"cats/{row}.jpg" for row in range(20_000)])
    built = nsh("build", many, "--index", volume / "index")
    assert built.returncode == 2
    assert built.stderr.startswith("error: the disk is full")
    assert list(volume.iterdir()) == []


def test_info_finds_damage(tmp_path, codes):
    nsh("build", codes, "--index", tmp_path / "index")
    path = tmp_path / "index" / "index.sqlite"
    content = path.read_bytes()
    path.write_bytes(content[:-8192] + bytes(8192))
    found = nsh("info", tmp_path / "index", "--check")
    assert found.returncode == 2
    assert found.stderr.startswith(f"error: the index in {tmp_path / 'index'} is damaged (index.sqlite: ")
    assert found.stderr.count("\n") == 1


def test_standard_input_that_is_closed_or_no_text_is_one_sentence(tmp_path, codes):
    Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER)
    command = f"{sys.executable} -m nsh.cli index remove - --index {tmp_path / 'index'}"
    binary = tmp_path / "binary"
    binary.write_bytes(Path("/bin/sh").read_bytes()[:2000])
    for source, said in (("<&-", "- means standard input, and that is closed"), (f"<{binary}", "nothing was removed")):
        result = subprocess.run(["sh", "-c", f"{command} {source}"], capture_output=True, text=True, check=False)
        assert result.returncode == 2
        assert said in result.stderr
        assert result.stderr.count("\n") == 1


def test_ids_may_come_with_line_ends_of_windows(tmp_path, codes):
    nsh("build", codes, "--index", tmp_path / "index")
    removed = nsh("remove", "-", "--index", tmp_path / "index", stdin="cats/0.jpg\r\ncats/1.jpg\r\n")
    assert removed.returncode == 0, removed.stderr


def test_update_makes_an_index_and_follows_the_codes(tmp_path, codes):
    made = nsh("update", codes, "--index", tmp_path / "index")
    assert made.stdout == f"{tmp_path / 'index'}: 40 added, 0 updated, 0 removed, 40 there now\n"
    less = write_codes(tmp_path / "less", ["cats/0.jpg", "dogs/1.jpg"], seed=3)
    changed = nsh("update", less, "--index", tmp_path / "index", "--json")
    assert json.loads(changed.stdout) == {"added": 1, "updated": 1, "removed": 39, "items": 2}
    other = write_codes(tmp_path / "other", ["cats/0.jpg"], encoder="b" * 64)
    refused = nsh("update", other, "--index", tmp_path / "index")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert nsh("update", less, other, "--index", tmp_path / "new").returncode == 2
    assert not (tmp_path / "new").exists()
