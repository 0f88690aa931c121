"""`nsh duplicates`: what it says, and its exit codes."""

import json
import shutil

import pytest
from PIL import Image
from tests.commands import run_nsh


def nsh(*arguments):
    return run_nsh("duplicates", *arguments)


@pytest.fixture
def photos(tmp_path, photographs):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, row in (("a.png", 0), ("copy of a.png", 0), ("b.png", 1), ("<i>.png", 1)):
        Image.fromarray(photographs[row]).save(folder / name)
    return folder


def test_copies_are_found_and_shown(tmp_path, photos, encoder_path):
    before = sorted(photos.iterdir())
    result = nsh(photos, "--model", encoder_path, "--radius", 0, "--report", tmp_path / "page.html", "--json")
    assert result.returncode == 0, result.stderr
    described = json.loads(result.stdout)
    groups = [[member["id"] for member in group] for group in described["groups"]]
    joined = {name for group in groups for name in group}
    assert joined == {"a.png", "copy of a.png", "b.png", "<i>.png"}
    assert any({"a.png", "copy of a.png"} <= set(group) for group in groups)
    assert any({"b.png", "<i>.png"} <= set(group) for group in groups)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<img") == 4
    assert "&lt;i&gt;.png" in page
    assert sorted(photos.iterdir()) == before


def test_an_unreadable_image_is_named_and_the_others_compared(photos, encoder_path):
    (photos / "bad.jpg").write_text("no image")
    result = nsh(photos, "--model", encoder_path, "--radius", 0)
    assert result.returncode == 1
    assert "copy of a.png\n" in result.stdout
    assert "of 4 images" in result.stdout.splitlines()[-1]
    assert result.stderr.startswith("bad.jpg: not an image")


def test_a_folder_that_cannot_be_read_is_counted_and_exit_code_1(photos, encoder_path, forbid):
    (photos / "closed").mkdir()
    forbid("closed")
    result = nsh(photos, "--model", encoder_path, "--radius", 0)
    assert result.returncode == 1
    assert "left out: 1 folders that cannot be read" in result.stdout
    assert "of 4 images" in result.stdout


def test_an_empty_folder_is_one_sentence(tmp_path, encoder_path):
    result = nsh(tmp_path, "--model", encoder_path)
    assert result.returncode == 2
    assert result.stderr.startswith("error: found no image in ")


def test_thumbnails_of_other_programs_are_no_duplicates_and_counted(photos, encoder_path):
    for name in ("@eaDir/a.png/SYNOPHOTO_THUMB_XL.png", "small/a.png"):
        (photos / name).parent.mkdir(parents=True)
        shutil.copy(photos / "a.png", photos / name)
    result = nsh(photos, "--model", encoder_path, "--radius", 0, "--exclude", "small", "--json")
    assert result.returncode == 0, result.stderr
    described = json.loads(result.stdout)
    assert described["images"] == 4
    assert described["left_out"] == {"@eaDir folders": 1, "excluded folders": 1}
    shown = nsh(photos, "--model", encoder_path, "--radius", 0, "--exclude", "*.png")
    assert shown.returncode == 2
    assert "left out: 1 @eaDir folders, 5 excluded files" in shown.stderr


def test_a_report_that_cannot_be_written_is_said_before_the_work(tmp_path, photos):
    """Before the model is looked for, and so before the images are."""
    result = nsh(photos, "--model", "absent.onnx", "--report", tmp_path)
    assert result.returncode == 2
    assert result.stderr == f"error: {tmp_path} cannot be used (Is a directory): name a file, this is a folder\n"


def test_a_report_replaces_no_other_file(tmp_path, photos):
    """Neither an image nor an encoder, but a page and an empty file."""
    photo = (photos / "a.png").read_bytes()
    result = nsh(photos, "--model", "absent.onnx", "--report", photos / "a.png")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "is no HTML page" in result.stderr
    assert (photos / "a.png").read_bytes() == photo
    for content in ("", "<!DOCTYPE html><title>groups</title>"):
        (tmp_path / "page").write_text(content)
        assert "there is no encoder" in nsh(photos, "--model", "absent.onnx", "--report", tmp_path / "page").stderr


def test_groups_are_printed_though_the_report_has_no_room(photos, encoder_path):
    result = nsh(photos, "--model", encoder_path, "--radius", 0, "--report", "/dev/full")
    assert result.returncode == 2
    assert result.stderr.startswith("error: the disk is full")
    assert "copy of a.png" in result.stdout
