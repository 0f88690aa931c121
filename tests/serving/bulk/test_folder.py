"""Files into a folder of codes: the same folder however the work is shared out, cut, or read."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from tests.serving.bulk.conftest import IMAGES, content, encode

from nsh.core.manifest import read_codes
from nsh.errors import CodesError, ConfigError, DataError
from nsh.serving.arguments import list_images
from nsh.serving.bulk import encode_files, quote
from nsh.serving.encoder import Encoder
from nsh.system.files import sha256_file


def test_every_image_has_the_code_that_the_encoder_gives_it(encoder, photos, tmp_path):
    summary = encode(encoder, photos, tmp_path / "codes")
    codes = read_codes(tmp_path / "codes")
    assert codes.ids == list_images([str(photos)]).ids
    assert np.array_equal(codes.codes, encoder.encode([photos / image_id for image_id in codes.ids]))
    assert codes.header["encoder_identity"] == encoder.identity
    assert (summary.images, summary.encoded, summary.kept, summary.complete) == (IMAGES, IMAGES, 0, True)
    line = json.loads((tmp_path / "codes/00000.jsonl").read_text().splitlines()[0])
    first = photos / "a/00 語.png"
    assert line == {
        "id": "a/00 語.png",
        "path": "a/00 語.png",
        "sha256": sha256_file(first),
        "status": "ok",
        "error": None,
    }
    assert not (tmp_path / "codes/errors.jsonl").exists()


def test_bad_images_have_a_line_and_cost_no_other_its_code(encoder, photos, tmp_path):
    expected = encoder.encode([photos / image_id for image_id in list_images([str(photos)]).ids])
    whole = (photos / "a/00 語.png").read_bytes()
    (photos / "a/cut.png").write_bytes(whole[:-800])
    (photos / "b/empty.jpg").touch()
    (photos / "b/text.jpg").write_text("hi")
    (photos / "b/gone.jpg").symlink_to(photos / "nowhere.jpg")
    os.mkfifo(photos / "b/pipe.jpg")
    summary = encode(encoder, photos, tmp_path / "codes", batch=3)
    codes = read_codes(tmp_path / "codes")
    assert np.array_equal(codes.codes, expected)
    errors = {entry.id: (entry.error, entry.sha256) for entry in codes.errors}
    assert set(errors) == {"a/cut.png", "b/empty.jpg", "b/text.jpg", "b/gone.jpg", "b/pipe.jpg"}
    assert errors["b/gone.jpg"] == ("cannot be read: No such file or directory", None)
    assert errors["b/pipe.jpg"] == ("not a regular file", None)
    assert errors["b/text.jpg"][1] == sha256_file(photos / "b/text.jpg")
    assert summary.errors == codes.errors
    table = [json.loads(line) for line in (tmp_path / "codes/errors.jsonl").read_text().splitlines()]
    assert table == [{"id": entry.id, "error": entry.error} for entry in codes.errors]


@pytest.mark.parametrize(("threads", "batch"), [(1, 1), (3, 4), (2, 64)])
def test_the_folder_does_not_depend_on_threads_and_batches(encoder, encoder_path, photos, tmp_path, threads, batch):
    (photos / "a/bad.jpg").write_bytes(b"bad")
    encode(encoder, photos, tmp_path / "one")
    encode(Encoder(encoder_path, threads=threads), photos, tmp_path / "two", batch=batch)
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.usefixtures("short_shards")
@pytest.mark.parametrize("stop", [1, 8, 20, 29])
def test_a_run_that_is_cut_goes_on_and_ends_the_same(encoder, photos, tmp_path, stop):
    encode(encoder, photos, tmp_path / "whole")

    def cut(iterable, *, desc="", total=None):
        for number, item in enumerate(iterable):
            if number == stop:
                raise KeyboardInterrupt
            yield item

    with pytest.raises(KeyboardInterrupt):
        encode(encoder, photos, tmp_path / "cut", progress=cut)
    with pytest.raises(CodesError, match="is incomplete"):
        read_codes(tmp_path / "cut")
    counted = []

    def count(iterable, *, desc="", total=None):
        counted.append(total)
        return iterable

    summary = encode(encoder, photos, tmp_path / "cut", progress=count)
    assert counted == [IMAGES]
    assert (summary.kept, summary.encoded, summary.complete) == (stop // 7 * 7, IMAGES, True)
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


@pytest.mark.usefixtures("short_shards")
def test_a_complete_folder_is_left_as_it_is(encoder, photos, tmp_path):
    (photos / "a/bad.jpg").write_bytes(b"bad")
    first = encode(encoder, photos, tmp_path / "codes")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "codes").iterdir()}
    again = encode(encoder, photos, tmp_path / "codes")
    assert again == replace(first, kept=IMAGES + 1, new=0)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "codes").iterdir()} == before


@pytest.mark.usefixtures("short_shards")
def test_a_damaged_shard_is_made_again(encoder, photos, tmp_path):
    encode(encoder, photos, tmp_path / "codes")
    before = content(tmp_path / "codes")
    rotten = (tmp_path / "codes/00000.npy").read_bytes()
    (tmp_path / "codes/00000.npy").write_bytes(rotten[:-2] + bytes([rotten[-2] ^ 16, rotten[-1]]))
    (tmp_path / "codes/00001.npy").unlink()
    (tmp_path / "codes/00002.jsonl").write_text("{")
    encode(encoder, photos, tmp_path / "codes")
    assert content(tmp_path / "codes") == before


def test_a_file_that_vanishes_after_it_was_listed_has_a_line(encoder, photos, tmp_path):
    listed = list_images([str(photos)])
    (photos / "a/00 語.png").unlink()
    summary = encode_files(encoder, listed, out=tmp_path / "codes")
    assert [(entry.id, entry.error) for entry in summary.errors] == [
        ("a/00 語.png", "cannot be read: No such file or directory")
    ]
    assert summary.encoded == IMAGES - 1


def test_a_folder_of_other_things_is_refused(encoder, photos, tmp_path):
    (tmp_path / "codes").mkdir()
    (tmp_path / "codes/thesis.tex").touch()
    with pytest.raises(CodesError, match="holds other files than codes"):
        encode(encoder, photos, tmp_path / "codes")
    with pytest.raises(ConfigError, match="cannot be made"):
        encode(encoder, photos, tmp_path / "codes/thesis.tex")


def test_nothing_is_written_where_the_images_are(encoder, photos, tmp_path):
    before = sorted(photos.rglob("*"))
    for out in (photos, photos / "a", photos.parent):
        images = list_images([str(photos)], root=photos.parent if out == photos.parent else None)
        with pytest.raises(DataError, match="nothing is written beside images"):
            encode_files(encoder, images, out=out)
    for path in [*photos.rglob("*"), photos]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert encode(encoder, photos, tmp_path / "codes").encoded == IMAGES
    assert sorted(photos.rglob("*")) == before


def test_not_one_good_image_is_an_error_and_no_folder_of_codes(encoder, tmp_path):
    folder = tmp_path / "bad"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(b"bad")
    for _ in range(2):
        with pytest.raises(DataError, match=r'not one of the 3 images could be decoded \(the first, "0\.jpg": not an'):
            encode(encoder, folder, tmp_path / "codes")
        with pytest.raises(CodesError, match="is incomplete"):
            read_codes(tmp_path / "codes")


def test_a_folder_of_no_code_at_all_takes_other_images(encoder, photos, tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "only here.jpg").write_bytes(b"bad")
    with pytest.raises(DataError, match="not one of the 1 images"):
        encode(encoder, bad, tmp_path / "codes")
    assert encode(encoder, photos, tmp_path / "codes").encoded == IMAGES
    encode(encoder, photos, tmp_path / "fresh")
    found, right = (read_codes(tmp_path / name) for name in ("codes", "fresh"))
    assert found.ids == right.ids
    assert np.array_equal(found.codes, right.codes)


def test_an_id_is_shown_in_one_line():
    assert quote("日本 語.jpg") == '"日本 語.jpg"'
    assert quote("new\nline.jpg") == '"new\\nline.jpg"'
    assert quote("bell\x07\x1b[31m") == '"bell\\u0007\\u001b[31m"'
