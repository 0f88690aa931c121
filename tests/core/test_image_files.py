"""Which files are images by their names: all that are decoded, none that other programs left, none that is excluded."""

import os
from collections import Counter
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from PIL import Image

from nsh.core.image_files import FOREIGN, SUFFIXES, Exclude, describe, is_image, walk
from nsh.core.preprocess import FORMATS, load_image
from nsh.data import tree
from nsh.errors import ConfigError
from nsh.serving.arguments import list_images

NOTHING = Exclude()


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def found(root: Path, *globs: str) -> tuple[list[str], Counter[str]]:
    left_out: Counter[str] = Counter()
    paths = walk(str(root), root=str(root), exclude=Exclude(globs), left_out=left_out)
    return sorted(os.path.relpath(path, root) for path in paths), left_out


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_is_decoded(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    Image.new("RGB", (16, 16), (200, 40, 40)).save(path)
    image = load_image(path)
    assert (image.mode, image.size) == ("RGB", (16, 16))
    assert np.abs(np.asarray(image).astype(int) - (200, 40, 40)).max() <= 12  # some formats lose a little


def test_what_pillow_calls_one_of_our_formats_is_an_image() -> None:
    registered = {end for end, kind in Image.registered_extensions().items() if kind in FORMATS}
    assert registered - set(SUFFIXES) == {".pfm"}  # floating point, which has no stated white
    assert not {".pdf", ".eps", ".svg", ".txt", ".npy", ".pfm", ""} & set(SUFFIXES)
    assert is_image("A.JPG")
    assert not is_image("jpg")


def test_training_and_production_find_the_same(tmp_path: Path) -> None:
    ends = [*SUFFIXES, ".PNG", ".pfm", ".txt", ".heic", ""]
    root = touch(tmp_path, *(f"b/a{end}" for end in ends), "@eaDir/a.png", ".b/a.png", "b/thumbs/a.png")
    images, left_out = tree.scan(root, exclude=["thumbs"])
    produced = list_images([str(root)], exclude=["thumbs"])
    assert images == produced.ids
    assert left_out == produced.left_out
    assert len(images) == len(SUFFIXES) + 1


def test_what_other_programs_left_is_left_out_and_counted(tmp_path: Path) -> None:
    root = touch(tmp_path, "a.png", *(f"b/{name}/deep/a.png" for name in FOREIGN), "b/@EADIR/a.png")
    paths, left_out = found(root)
    assert paths == ["a.png"]
    assert left_out == Counter({f"{name} folders": 1 for name in FOREIGN}) + Counter({"@eaDir folders": 1})
    assert "2 @eaDir folders" in describe(left_out)


def test_hidden_rubbish_is_left_out_and_counted(tmp_path: Path) -> None:
    folders = (".thumbnails", ".git", ".Trash-1000", ".picasaoriginals", ".@__thumb", ".AppleDouble", ".Spotlight-V100")
    root = touch(tmp_path, "a.png", *(f"{name}/a.png" for name in folders), "b/._a.png", "b/.DS_Store")
    assert found(root) == (["a.png"], {"hidden folders": len(folders), "hidden files": 2})


def test_a_folder_that_is_named_is_walked_whatever_its_name(tmp_path: Path) -> None:
    assert list_images([str(touch(tmp_path, "@eaDir/a.png") / "@eaDir")]).ids == ["a.png"]


@pytest.mark.parametrize(
    ("glob", "left"),
    [
        ("thumbs", ["a/1.png", "a/b/2.gif", "raw/3.png", "raw/x/4.png"]),
        ("thumbs/", ["a/1.png", "a/b/2.gif", "raw/3.png", "raw/x/4.png"]),
        ("*.gif", ["a/1.png", "a/thumbs/5.png", "raw/3.png", "raw/x/4.png"]),
        ("raw/*.png", ["a/1.png", "a/b/2.gif", "a/thumbs/5.png", "raw/x/4.png"]),
        ("/raw", ["a/1.png", "a/b/2.gif", "a/thumbs/5.png"]),
        ("./raw/**", ["a/1.png", "a/b/2.gif", "a/thumbs/5.png"]),
        ("**/[45].png", ["a/1.png", "a/b/2.gif", "raw/3.png"]),
        ("a/**/2.*", ["a/1.png", "a/thumbs/5.png", "raw/3.png", "raw/x/4.png"]),
        ("/thumbs", ["a/1.png", "a/b/2.gif", "a/thumbs/5.png", "raw/3.png", "raw/x/4.png"]),
    ],
)
def test_a_glob_means_names_or_paths(tmp_path: Path, glob: str, left: list[str]) -> None:
    root = touch(tmp_path, "a/1.png", "a/b/2.gif", "raw/3.png", "raw/x/4.png", "a/thumbs/5.png")
    assert found(root, glob)[0] == left


def test_accents_in_globs_have_no_form() -> None:
    for name in ("NFC", "NFD"):
        for glob in ("NFC", "NFD"):
            assert Exclude([normalize(glob, "bär*")])(normalize(name, "a/bären/1.png"))
    assert not NOTHING("a/bären/1.png")


@pytest.mark.parametrize("glob", ["", "/", ".", "../a", "a/../b"])
def test_what_is_no_glob_is_refused(glob: str) -> None:
    with pytest.raises(ConfigError, match="allowed are globs of names"):
        Exclude([glob])


def test_loops_of_links_end(tmp_path: Path) -> None:
    root = touch(tmp_path / "root", "a/1.png")
    (root / "a/loop").symlink_to(root)
    (root / "a/self.png").symlink_to(root / "a/self.png")
    assert tree.scan(root) == (["a/1.png"], {"linked folders": 1, "names that are no regular file": 1})
    assert list_images([str(root)]).ids == ["a/1.png", "a/self.png"]  # a line that says it cannot be read
