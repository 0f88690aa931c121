"""A folder of codes follows images that change, wherever the update is cut."""

import os
import shutil
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.serving.bulk.conftest import IMAGES, content, encode

from nsh.core.manifest import read_codes
from nsh.core.preprocess import load_input
from nsh.errors import CodesError
from nsh.serving import bulk
from nsh.serving.bulk import Share


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
