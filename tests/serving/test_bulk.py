"""Files into a folder of codes: the same folder however the work is shared out, cut, or read."""

import json
import os
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nsh.core.manifest import read_codes
from nsh.core.preprocess import load_input
from nsh.errors import CodesError, ConfigError, DataError
from nsh.serving import bulk
from nsh.serving.arguments import list_images
from nsh.serving.bulk import Share, encode_files, quote
from nsh.serving.encoder import Encoder
from nsh.system.files import sha256_file

IMAGES = 30


@pytest.fixture(scope="module")
def encoder(encoder_path):
    return Encoder(encoder_path, threads=2)


@pytest.fixture(scope="module")
def pristine(photographs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pristine")
    for row in range(IMAGES):
        path = folder / "ab"[row % 2] / f"{row:02} 語.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(photographs[row]).save(path)
    return folder


@pytest.fixture
def photos(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "photos")


@pytest.fixture
def short_shards(monkeypatch):
    monkeypatch.setattr(bulk, "SHARD_ROWS", 7)


def encode(encoder, photos, out, **options):
    return encode_files(encoder, list_images([str(photos)]), out=out, **options)


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


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


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_shares_in_any_order_make_the_folder_between_them(encoder, photos, tmp_path, order):
    (photos / "a/bad.jpg").write_bytes(b"bad")
    done = [encode(encoder, photos, tmp_path / "shared", share=Share(number, 3)) for number in order]
    assert [summary.complete for summary in done] == [False, False, True]
    assert sum(summary.images for summary in done) == IMAGES + 1
    assert sum(len(summary.errors) for summary in done) == 1
    assert all(summary.images >= 9 for summary in done)
    shared = read_codes(tmp_path / "shared")
    encode(encoder, photos, tmp_path / "alone")
    alone = read_codes(tmp_path / "alone")
    assert shared.ids == alone.ids
    assert np.array_equal(shared.codes, alone.codes)


def test_a_run_without_a_share_does_what_shares_left(encoder, photos, tmp_path):
    encode(encoder, photos, tmp_path / "codes", share=Share(2, 4))
    summary = encode(encoder, photos, tmp_path / "codes")
    assert (summary.complete, summary.encoded) == (True, IMAGES)
    assert 0 < summary.kept < IMAGES


def test_folders_of_shares_made_apart_can_be_put_together(encoder, photos, tmp_path):
    for number in (1, 2):
        encode(encoder, photos, tmp_path / str(number), share=Share(number, 2))
    shutil.copytree(tmp_path / "2", tmp_path / "1", dirs_exist_ok=True)
    summary = encode(encoder, photos, tmp_path / "1")
    assert (summary.kept, summary.complete) == (IMAGES, True)
    assert len(read_codes(tmp_path / "1").ids) == IMAGES


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "a/b", "-1/2", "1/0", "1/2/3", "1.0/2"])
def test_a_share_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="of N shards the first is 1/N"):
        Share.parse(text)


def test_shares_are_a_partition():
    assert Share.parse("2/3") == Share(2, 3)
    owners = [[number for number in range(1, 5) if Share(number, 4).takes(shard)] for shard in range(20)]
    assert all(len(owner) == 1 for owner in owners)


def test_codes_of_quite_other_images_are_left_as_they_are(encoder, photos, tmp_path):
    encode(encoder, photos, tmp_path / "codes")
    before = content(tmp_path / "codes")
    with pytest.raises(CodesError, match="of other images"):
        encode(encoder, (photos / "a").rename(tmp_path / "others"), tmp_path / "codes")
    assert content(tmp_path / "codes") == before


def change_images(photos):
    """One each: mended, replaced by another of the same size and time, moved, removed, new at the front and the end."""
    shutil.copy(photos / "a/00 語.png", photos / "a/cut.png")
    replaced, time = photos / "a/02 語.png", (photos / "a/02 語.png").stat().st_mtime_ns
    content = (photos / "a/04 語.png").read_bytes()
    replaced.write_bytes(content + bytes(max(0, replaced.stat().st_size - len(content))))
    os.utime(replaced, ns=(time, time))
    (photos / "b/01 語.png").rename(photos / "a/01 語.png")
    (photos / "b/29 語.png").unlink()
    Image.new("RGB", (9, 9), "red").save(photos / "0.png")
    Image.new("RGB", (9, 9), "blue").save(photos / "z.png")


@pytest.fixture
def half_sound(photos):
    (photos / "a/cut.png").write_bytes((photos / "a/00 語.png").read_bytes()[:-800])
    return photos


@pytest.mark.usefixtures("short_shards")
@pytest.mark.parametrize("shares", [1, 2])
def test_codes_follow_the_content_of_the_images(encoder, half_sound, tmp_path, monkeypatch, shares):
    encode(encoder, half_sound, tmp_path / "codes")
    change_images(half_sound)
    decoded = []

    def load(source, **options):
        decoded.append(source)
        return load_input(source, **options)

    monkeypatch.setattr("nsh.serving.encoder.load_input", load)
    done = [encode(encoder, half_sound, tmp_path / "codes", share=Share(n, shares)) for n in range(1, shares + 1)]
    assert [sum(getattr(one, name) for one in done) for name in ("kept", "new", "changed", "gone")] == [27, 3, 2, 2]
    assert len(decoded) <= 5
    assert done[-1].complete
    encode(encoder, half_sound, tmp_path / "anew")
    assert content(tmp_path / "codes") == content(tmp_path / "anew")


def test_one_replaced_image_of_a_complete_folder_gets_its_code(encoder, photos, tmp_path):
    encode(encoder, photos, tmp_path / "codes")
    shutil.copy(photos / "b/01 語.png", photos / "a/00 語.png")
    summary = encode(encoder, photos, tmp_path / "codes")
    assert (summary.kept, summary.changed, summary.new, summary.gone) == (IMAGES - 1, 1, 0, 0)
    codes = read_codes(tmp_path / "codes")
    rows = [codes.ids.index(name) for name in ("a/00 語.png", "b/01 語.png")]
    assert np.array_equal(*codes.codes[rows])


def test_an_image_that_could_not_be_decoded_is_tried_again(encoder, half_sound, tmp_path):
    encode(encoder, half_sound, tmp_path / "codes")
    shutil.copy(half_sound / "a/00 語.png", half_sound / "a/cut.png")
    summary = encode(encoder, half_sound, tmp_path / "codes")
    assert (summary.errors, summary.changed, summary.encoded) == ([], 1, IMAGES + 1)
    assert not (tmp_path / "codes/errors.jsonl").exists()


class Killed(BaseException):
    pass


def test_an_update_that_is_cut_anywhere_goes_on_and_ends_the_same(encoder, half_sound, tmp_path, monkeypatch):
    """Cut before each rename and each removal of a file in turn, until there is none left to cut."""
    monkeypatch.setattr(bulk, "SHARD_ROWS", 16)
    encode(encoder, half_sound, tmp_path / "before")
    change_images(half_sound)
    encode(encoder, half_sound, tmp_path / "anew")
    for cut in count():
        out = shutil.copytree(tmp_path / "before", tmp_path / f"cut at {cut}")
        left = [cut]
        with monkeypatch.context() as patch:
            for name in ("replace", "unlink"):
                patch.setattr(Path, name, stop_after(left, getattr(Path, name)))
            try:
                encode(encoder, half_sound, out)
            except Killed:
                pass
            else:
                break
        encode(encoder, half_sound, out)
        assert content(out) == content(tmp_path / "anew")
    assert cut > 15


def stop_after(left, change):
    def changed(path, *arguments, **options):
        left[0] -= 1
        if left[0] == -1:
            raise Killed
        if left[0] >= 0 or path.name.endswith(".partial"):  # a partial file is removed by a `finally`
            return change(path, *arguments, **options)
        raise Killed

    return changed


@pytest.mark.usefixtures("short_shards")
def test_images_that_change_again_while_an_update_is_cut(encoder, half_sound, tmp_path):
    encode(encoder, half_sound, tmp_path / "codes")
    change_images(half_sound)
    encode(encoder, half_sound, tmp_path / "codes", share=Share(2, 3))
    for name in ("0.png", "a/04 語.png"):
        (half_sound / name).unlink()
    encode(encoder, half_sound, tmp_path / "codes")
    encode(encoder, half_sound, tmp_path / "anew")
    assert content(tmp_path / "codes") == content(tmp_path / "anew")


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


def test_an_id_is_shown_in_one_line():
    assert quote("日本 語.jpg") == '"日本 語.jpg"'
    assert quote("new\nline.jpg") == '"new\\nline.jpg"'
    assert quote("bell\x07\x1b[31m") == '"bell\\u0007\\u001b[31m"'
