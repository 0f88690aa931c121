import json
import os
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nsh.core.preprocess import load_image
from nsh.data import folder, inventory, registry
from nsh.errors import DataError, UnreadableImage
from nsh.system.files import sha256_file

STRANGE = ["ünï code/日本 語 .jpg", "🙂/a\u2028b.png", "new\nline/c.png", " edges /d.png", 'quote\'s/"e".png']


def paint(path: Path, colour: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (colour, 2, 3)).save(path, "JPEG" if path.suffix == ".jpg" else "PNG")
    return path


def open_tree(tmp_path: Path, *, labels: str = "folder") -> folder.FolderImages:
    folder.fetch(raw=tmp_path / "raw/folder", root=tmp_path / "root", say=lambda line: None)
    return folder.open_images(raw=tmp_path / "raw/folder", root=tmp_path / "root", labels=labels)


def test_the_first_folder_level_is_the_class(tmp_path: Path) -> None:
    for name in ("dog/1.png", "cat/deep/er/1.png", "cat/1.png"):
        paint(tmp_path / "root" / name)
    images = open_tree(tmp_path)
    assert images.ids == ["cat/1.png", "cat/deep/er/1.png", "dog/1.png"]  # 1.png thrice: three ids
    assert images.classes == ("cat", "dog")
    assert images.labels == [(0,), (0,), (1,)]
    assert images.parts == ["", "", ""]


@pytest.mark.parametrize(
    ("train", "test"),
    [("train", "test"), ("train", "val"), ("Train", "Test"), ("TRAIN", "valid"), ("training", "TESTING")],
)
def test_an_official_split_is_recognised(tmp_path: Path, train: str, test: str) -> None:
    for name in (f"{train}/cat/1.png", f"{train}/dog/1.png", f"{test}/cat/1.png", "extra/cat/1.png"):
        paint(tmp_path / "root" / name)
    images = open_tree(tmp_path)
    assert dict(zip(images.ids, images.parts, strict=True)) == {
        f"{test}/cat/1.png": "test",
        f"{train}/cat/1.png": "train",
        f"{train}/dog/1.png": "train",
    }
    assert images.classes == ("cat", "dog")
    header = json.loads((tmp_path / "raw/folder/inventory.json").read_text())
    assert header == {"images": 3, "ignored": {f"images outside train and {test.lower()}": 1}}


def test_a_class_called_train_is_no_official_part(tmp_path: Path) -> None:
    for name in ("train/1.png", "car/1.png"):
        paint(tmp_path / "root" / name)
    assert open_tree(tmp_path).classes == ("car", "train")


def test_without_labels_any_tree_goes(tmp_path: Path) -> None:
    for name in ("1.png", "a/2.png", "a/b/3.png"):
        paint(tmp_path / "root" / name)
    images = open_tree(tmp_path, labels="none")
    assert (images.classes, images.labels) == (None, None)
    assert images.ids == ["1.png", "a/2.png", "a/b/3.png"]


@pytest.mark.parametrize("loose", ["1.png", "train/1.png"])
def test_images_outside_class_folders_name_the_way_out(tmp_path: Path, loose: str) -> None:
    for name in (loose, "train/cat/2.png", "test/cat/3.png"):
        paint(tmp_path / "root" / name)
    if loose == "1.png":
        (tmp_path / "root/test/cat/3.png").unlink()
    with pytest.raises(DataError, match=rf"1 of . images under .*'{loose}'.*set dataset.labels: none"):
        open_tree(tmp_path)


def test_strange_names_round_trip(tmp_path: Path) -> None:
    names = [unicodedata.normalize("NFC", name) for name in STRANGE]
    for name in names:
        paint(tmp_path / "root" / name)
    images = open_tree(tmp_path)
    assert images.ids == sorted(names)
    for name in names:
        assert images.inspect(name) == sha256_file(tmp_path / "root" / name)
        assert images.image(name, size=8).size == (8, 6)


def test_a_large_jpeg_is_read_as_the_encoder_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "root/cat/1.jpg"
    path.parent.mkdir(parents=True)
    Image.linear_gradient("L").save(path)
    images = open_tree(tmp_path)
    assert images.inspect("cat/1.jpg") == sha256_file(path)
    found = images.image("cat/1.jpg", size=30)
    assert found.size == (64, 64)
    assert found.tobytes() == load_image(path, size=30).tobytes()


def test_what_is_no_image_is_left_out_and_counted(tmp_path: Path) -> None:
    root = tmp_path / "root"
    paint(root / "cat/1.PNG")
    paint(root / "cat/.2.png")
    paint(root / ".hidden/3.png")
    (root / "cat/notes.txt").write_text("x")
    (root / "Thumbs.db").write_text("x")
    (root / "cat/folder.png").mkdir()
    (root / "empty").mkdir()
    os.mkfifo(root / "cat/pipe.png")
    (root / "cat/broken.png").symlink_to("nowhere.png")
    lines: list[str] = []
    folder.fetch(raw=tmp_path / "raw", root=root, say=lines.append)
    assert json.loads((tmp_path / "raw/inventory.json").read_text()) == {
        "images": 1,
        "ignored": {
            "files that are no images by name": 2,
            "hidden files": 1,
            "hidden folders": 1,
            "names that are no regular file": 2,
        },
    }
    assert "1 images in" in lines[0]


def test_no_link_leads_out_of_the_root(tmp_path: Path) -> None:
    secret = paint(tmp_path / "elsewhere/secret.png")
    root = tmp_path / "root"
    paint(root / "cat/1.png")
    (root / "cat/inside.png").symlink_to("1.png")
    (root / "cat/outside.png").symlink_to(secret)
    (root / "dog").symlink_to(secret.parent)
    (root / "cat/loop").symlink_to(root)
    images = open_tree(tmp_path)
    assert images.ids == ["cat/1.png", "cat/inside.png"]
    header = json.loads((tmp_path / "raw/folder/inventory.json").read_text())
    assert header["ignored"] == {"linked folders": 2, "links out of the root": 1}


@pytest.mark.parametrize("path", ["../elsewhere/secret.png", "cat/outside.png", "/etc/hostname"])
def test_a_forged_inventory_reads_nothing_outside(tmp_path: Path, path: str) -> None:
    paint(tmp_path / "elsewhere/secret.png")
    (tmp_path / "root/cat").mkdir(parents=True)
    (tmp_path / "root/cat/outside.png").symlink_to(tmp_path / "elsewhere/secret.png")
    images = folder.FolderImages("folder", [{"path": path, "sha256": None}], root=tmp_path / "root", labels="none")
    with pytest.raises(DataError, match="leads out of the folder"):
        images.content(path)


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    paint(tmp_path / "disk/cat/1.png")
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    assert open_tree(tmp_path).image("cat/1.png", size=8).size == (8, 6)


def test_names_that_are_not_utf8_are_left_out(tmp_path: Path) -> None:
    paint(tmp_path / "root/cat/1.png")
    paint(tmp_path / "root/cat/2.png").rename(tmp_path / "root/cat" / os.fsdecode(b"\xff.png"))
    assert open_tree(tmp_path).ids == ["cat/1.png"]


@pytest.mark.parametrize("labels", ["folder", "none"])
def test_an_empty_folder_is_an_error(tmp_path: Path, labels: str) -> None:
    (tmp_path / "root/cat").mkdir(parents=True)
    (tmp_path / "root/README.md").write_text("x")
    with pytest.raises(
        DataError, match=r"has no image \(left out: 1 files that are no images by name\).*set dataset.root"
    ):
        open_tree(tmp_path, labels=labels)
    assert not (tmp_path / "raw/folder").exists()


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        open_tree(tmp_path)


def test_the_inventory_is_the_same_every_time(tmp_path: Path) -> None:
    for number in range(20):
        paint(tmp_path / f"root/{number % 3}/{number}.png", number)
    written = []
    for raw in ("a", "b"):
        folder.fetch(raw=tmp_path / raw, root=tmp_path / "root", say=lambda line: None)
        written.append([(path.name, path.read_bytes()) for path in sorted((tmp_path / raw).iterdir())])
    assert written[0] == written[1]
    assert str(tmp_path).encode() not in written[0][1][1]


def test_a_changed_image_is_noticed(tmp_path: Path) -> None:
    path = paint(tmp_path / "root/cat/1.png")
    images = open_tree(tmp_path)
    paint(path, 9)
    with pytest.raises(DataError, match=r"'cat/1.png' has changed since the download stage"):
        images.inspect("cat/1.png")
    with pytest.raises(DataError, match="has changed"):  # the embed stage takes no other image than the split did
        images.image("cat/1.png", size=8)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read any more"):
        images.inspect("cat/1.png")


def test_broken_images_are_unreadable_with_a_reason(tmp_path: Path) -> None:
    root = tmp_path / "root"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    (root / "cat").mkdir(parents=True)
    Image.fromarray(noise).save(root / "cat/cut.jpg")
    (root / "cat/cut.jpg").write_bytes((root / "cat/cut.jpg").read_bytes()[:-800])
    (root / "cat/empty.jpg").touch()
    (root / "cat/text.png").write_text("hello")
    images = open_tree(tmp_path)
    for image_id in images.ids:
        with pytest.raises(UnreadableImage) as caught:
            images.inspect(image_id)
        assert str(tmp_path) not in str(caught.value)


def test_no_right_to_read_is_unreadable_not_fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root reads everything, so the refusal comes from a patched `Path.read_bytes` and digest."""
    locked = paint(tmp_path / "root/cat/1.png")

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(inventory, "sha256_file", refuse)
    images = open_tree(tmp_path)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UnreadableImage, match="cannot be read: Permission denied"):
        images.inspect("cat/1.png")
    assert locked.exists()


def test_half_an_inventory_is_refused(tmp_path: Path) -> None:
    for number in range(3):
        paint(tmp_path / f"root/cat/{number}.png")
    open_tree(tmp_path)
    inventory = tmp_path / "raw/folder/inventory.jsonl"
    inventory.write_text("".join(inventory.read_text().splitlines(keepends=True)[:2]))
    with pytest.raises(DataError, match="is not whole"):
        folder.open_images(raw=tmp_path / "raw/folder", root=tmp_path / "root", labels="folder")


def test_no_inventory_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run `dvc repro download`"):
        registry.open_images("folder", raw=tmp_path, root=tmp_path, labels="none")
