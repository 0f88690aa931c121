"""What folders, files and lists mean, and where a model comes from."""

import hashlib
import io
import os
import unicodedata
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from nsh.core.image_files import describe
from nsh.errors import ConfigError, DataError, DownloadError
from nsh.serving.arguments import find_model, list_images

STRANGE = [
    "日本 語.jpg",
    " leading and trailing .png",
    "new\nline.jpg",
    "emoji 🐈.webp",
    "tab\t'quote\".gif",
    "%2F.bmp",
]


@pytest.fixture
def photos(tmp_path):
    return touch(tmp_path / "photos", "b/2.jpg", "a/1.JPG", "a/1.png", "top.jpeg")


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def test_ids_in_one_folder_are_sorted_paths_below_it(photos):
    found = list_images([str(photos)])
    assert found.ids == ["a/1.JPG", "a/1.png", "b/2.jpg", "top.jpeg"]
    assert found.root == photos
    assert all(found.path(image_id).is_file() for image_id in found.ids)


def test_a_folder_is_the_same_however_it_is_named(photos, monkeypatch):
    expected = list_images([str(photos)])
    monkeypatch.chdir(photos)
    assert list_images(["."]) == expected
    assert list_images(["../photos/"]) == expected


def test_several_arguments_have_ids_below_the_working_folder(photos, monkeypatch):
    monkeypatch.chdir(photos)
    assert list_images(["top.jpeg", "b", "./b/2.jpg", "b"]).ids == ["b/2.jpg", "top.jpeg"]
    assert list_images(["a", "top.jpeg"]).ids == ["a/1.JPG", "a/1.png", "top.jpeg"]


def test_a_root_shortens_ids(photos):
    assert list_images([str(photos / "a"), str(photos / "b")], root=photos).ids == ["a/1.JPG", "a/1.png", "b/2.jpg"]
    assert list_images([str(photos / "a")], root=photos).ids == ["a/1.JPG", "a/1.png"]
    assert list_images([str(photos / "top.jpeg")], root=Path("/")).ids == [str(photos / "top.jpeg")[1:]]


def test_an_image_outside_of_the_root_is_refused_with_the_root_that_would_do(photos, monkeypatch):
    monkeypatch.chdir(photos / "a")
    with pytest.raises(DataError, match=f"give --root {photos},"):
        list_images(["1.png", "../b/2.jpg"])
    touch(photos.parent, "photos-more/3.jpg")  # a name that begins like the root's
    with pytest.raises(DataError, match="is not below"):
        list_images([str(photos.parent / "photos-more/3.jpg")], root=photos)


def test_the_same_name_in_two_folders_is_two_images(tmp_path):
    assert list_images([str(touch(tmp_path / "p", "a/1.jpg", "b/1.jpg"))]).ids == ["a/1.jpg", "b/1.jpg"]


@pytest.mark.parametrize("name", STRANGE)
def test_strange_names_come_through_every_way(tmp_path, name):
    folder = touch(tmp_path / "ünï code", name)
    path = folder / name
    assert list_images([str(folder)]).ids == [name]
    assert list_images([str(path)], root=folder).ids == [name]
    listed = os.fsencode(path) + b"\0"
    assert list_images(["-"], root=folder, stdin=io.BytesIO(listed)).ids == [name]


def test_a_list_on_standard_input(photos, monkeypatch):
    monkeypatch.chdir(photos)
    listed = io.BytesIO(b"b/2.jpg\n\na\ngone.jpg\nb/2.jpg")
    assert list_images(["-", "top.jpeg"], stdin=listed).ids == ["a/1.JPG", "a/1.png", "b/2.jpg", "gone.jpg", "top.jpeg"]


def test_what_is_no_image_by_name_or_hidden_is_left_out_and_counted(photos):
    touch(photos, "a/notes.txt", ".hidden.jpg", ".thumbs/1.jpg", "Thumbs.db", "jpg")
    (photos / "loop").symlink_to(photos)
    (photos / "linked.jpg").symlink_to(photos / "top.jpeg")
    found = list_images([str(photos)])
    assert found.ids == ["a/1.JPG", "a/1.png", "b/2.jpg", "linked.jpg", "top.jpeg"]
    assert found.left_out == {
        "files that are no images by name": 3,
        "hidden files": 1,
        "hidden folders": 1,
        "linked folders": 1,
    }
    assert "1 hidden files, 1 hidden folders" in describe(found.left_out)


def test_a_file_that_is_named_counts_whatever_its_name(photos, monkeypatch):
    monkeypatch.chdir(touch(photos, "scan", ".hidden"))
    assert list_images(["scan", ".hidden"]).ids == [".hidden", "scan"]


def test_a_name_that_is_not_utf8_is_left_out_and_counted(tmp_path):
    folder = touch(tmp_path / "p", "good.jpg")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.jpg")).touch()
    found = list_images([str(folder)])
    assert found.ids == ["good.jpg"]
    assert found.left_out == {"names that are not UTF-8": 1}


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"there is no image and no folder at gone\.jpg"):
        list_images(["gone.jpg"])
    with pytest.raises(DataError, match="is no folder"):
        list_images(["-"], root=tmp_path / "gone", stdin=io.BytesIO(b"a"))


def test_nothing_to_encode_says_what_was_left_out_and_what_counts(tmp_path):
    with pytest.raises(DataError, match=r"found no image in .*1 files that are no images by name.*\.jpg"):
        list_images([str(touch(tmp_path / "p", "notes.txt"))])
    with pytest.raises(DataError, match="found no image in -"):
        list_images(["-"], stdin=io.BytesIO(b""))


def test_globs_leave_out_what_is_found_and_what_is_named(photos, monkeypatch):
    monkeypatch.chdir(photos)
    found = list_images(["."], exclude=["a", "*.jpeg"])
    assert found.ids == ["b/2.jpg"]
    assert found.left_out == {"excluded folders": 1, "excluded files": 1}
    assert list_images(["a/1.png", "top.jpeg"], exclude=["a/*"]).ids == ["top.jpeg"]
    assert list_images(["-"], exclude=["b/**"], stdin=io.BytesIO(b"b/2.jpg\na\n")).ids == ["a/1.JPG", "a/1.png"]
    with pytest.raises(ConfigError, match="to exclude: allowed are globs"):
        list_images(["."], exclude=["../x"])


@pytest.mark.parametrize(
    "listed",
    [
        b"\xef\xbb\xbfb/m\xc3\xbcller.jpg\r\ntop.jpeg\r\n",  # as Windows ends lines, with a byte order mark
        "b\\müller.jpg\r\ntop.jpeg\r\n".encode("utf-16"),  # as PowerShell writes
        b"./b/m\xc3\xbcller.jpg \n\n  top.jpeg",
        b"b/mu\xcc\x88ller.jpg\ntop.jpeg\n",
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_list_may_spell_names_otherwise_than_the_disk(tmp_path, monkeypatch, listed, form):
    name = unicodedata.normalize(form, "b/müller.jpg")
    monkeypatch.chdir(touch(tmp_path / "photos", name, "top.jpeg"))
    assert list_images(["-"], stdin=io.BytesIO(listed)).ids == [name, "top.jpeg"]


def test_two_spellings_on_disk_are_two_images(tmp_path, monkeypatch):
    names = sorted(unicodedata.normalize(form, "ü.jpg") for form in ("NFC", "NFD"))
    monkeypatch.chdir(touch(tmp_path / "photos", *names, "ü.jpg "))
    for name in names:
        assert list_images(["-"], stdin=io.BytesIO(name.encode())).ids == [name]


class Registry:
    """Stands for MLflow's: `nsh.cli` hands in the real one, which tests/tracking proves."""

    def __call__(self, reference, to):
        self.asked = reference
        to.parent.mkdir(parents=True)
        to.write_bytes(b"model")
        return to


def test_a_path_is_a_path(tmp_path):
    assert find_model("models/nsh-32/encoder.onnx") == Path("models/nsh-32/encoder.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_registered_model_comes_through_the_function_that_knows_the_registry(tmp_path):
    registry = Registry()
    path = find_model("models:/cifar10-nsh-32@champion", from_registry=registry, cache=tmp_path / "cache")
    assert registry.asked == "models:/cifar10-nsh-32@champion"
    assert path.read_bytes() == b"model"
    assert path.is_relative_to(tmp_path / "cache")
    with pytest.raises(ConfigError, match="nsh registry pull"):
        find_model("models:/a@b")


@pytest.fixture
def server(tmp_path):
    """A real HTTP server on this machine; gives its address and its folder."""
    folder = tmp_path / "www"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}", folder
        running.shutdown()


def test_a_model_from_the_web_is_checked_and_kept(server, tmp_path, monkeypatch):
    address, folder = server
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (folder / "encoder.onnx").write_bytes(b"the model")
    digest = hashlib.sha256(b"the model").hexdigest()
    path = find_model(f"{address}/encoder.onnx#sha256={digest}")
    assert path.read_bytes() == b"the model"
    assert path.is_relative_to(tmp_path / "cache")
    (folder / "encoder.onnx").unlink()
    assert find_model(f"{address}/encoder.onnx#sha256={digest}") == path
    (folder / "encoder.onnx").write_bytes(b"another model")
    with pytest.raises(DownloadError, match="is not the file it should be"):
        find_model(f"{address}/encoder.onnx#sha256={'0' * 64}")


@pytest.mark.parametrize("rest", ["m.onnx", "m.onnx#sha256=12", "m.onnx#md5=" + "0" * 32, "#sha256=" + "0" * 64])
def test_a_model_from_the_web_without_a_digest_or_a_name_is_refused(tmp_path, rest):
    with pytest.raises(ConfigError, match=r"encoder\.onnx#sha256=<64 hex digits>"):
        find_model(f"https://example.org/{rest}", cache=tmp_path)


def test_a_cache_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="set XDG_CACHE_HOME"):
        find_model(f"https://example.org/m.onnx#sha256={'0' * 64}", cache=tmp_path / "file" / "cache")
