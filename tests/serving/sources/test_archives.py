"""Images in TAR and Parquet archives: the codes of the same files, and an error for each member that is none."""

import io
import os
import shutil
import tarfile

import pytest
from tests.serving.sources.folders import content

from nsh.core.manifest import read_codes
from nsh.errors import DataError
from nsh.serving import bulk
from nsh.serving.bulk import Share, encode_files
from nsh.serving.inputs import find_images
from nsh.serving.sources import tar


@pytest.fixture
def short_shards(monkeypatch):
    monkeypatch.setattr(bulk, "SHARD_ROWS", 4)


@pytest.fixture
def shards(photos, local, tmp_path):
    """The photographs in three TAR archives as webdataset has them, with other files of the samples."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in range(3):
        with tarfile.open(folder / f"{number:03}.tar", "w") as archive:
            for name in local.images.ids[number::3]:
                archive.add(photos / name, arcname=name)
                archive.addfile(*member(f"{name}.json", b"{}"))
    return folder


def member(name, content=b"bad", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, io.BytesIO(content)


def make_tar(path, *members, **options):
    with tarfile.open(path, "w", **options) as archive:
        for one in members:
            archive.addfile(*one)
    return path


def codes_of(folder):
    codes = read_codes(folder)
    return dict(zip(codes.ids, map(bytes, codes.codes), strict=True)), {one.id: one.error for one in codes.errors}


def manifest_lines(folder):
    return {line for path in folder.glob("0*.jsonl") for line in path.read_text().splitlines()}


@pytest.mark.usefixtures("short_shards")
@pytest.mark.parametrize("named", ["folder", "files", "list"])
def test_shards_give_the_codes_of_the_files_in_the_order_of_the_archives(encoder, shards, local, tmp_path, named):
    paths = [str(path) for path in sorted(shards.iterdir(), reverse=True)]
    listed = io.BytesIO("\n".join(paths).encode())
    arguments = {"folder": [str(shards)], "files": paths, "list": ["-"]}[named]
    images = find_images(arguments, root=str(shards), stdin=listed)
    assert images.ids == [name for number in range(3) for name in local.images.ids[number::3]]
    assert images.left_out == {"files that are no images by name": len(images.ids)}
    summary = encode_files(encoder, images, out=tmp_path / "codes", batch=3)
    assert (summary.encoded, summary.new) == (local.summary.encoded, local.summary.images)
    assert codes_of(tmp_path / "codes") == codes_of(local.out)
    assert manifest_lines(tmp_path / "codes") == manifest_lines(local.out)


@pytest.mark.usefixtures("short_shards")
def test_a_run_goes_on_and_shares_make_the_same_folder(encoder, shards, tmp_path):
    images = find_images([str(shards)])
    encode_files(encoder, images, out=tmp_path / "whole")
    for number in (2, 1):
        encode_files(encoder, find_images([str(shards)]), out=tmp_path / "shared", share=Share(number, 2))
    assert content(tmp_path / "shared") == content(tmp_path / "whole")
    assert encode_files(encoder, images, out=tmp_path / "whole").kept == len(images.ids)


@pytest.mark.usefixtures("short_shards")
def test_a_further_archive_costs_its_own_images(encoder, shards, local, tmp_path):
    later = (shards / "000.tar").rename(tmp_path / "000.tar")
    encode_files(encoder, find_images([str(shards)]), out=tmp_path / "codes")
    later.rename(shards / "000.tar")
    summary = encode_files(encoder, find_images([str(shards)]), out=tmp_path / "codes")
    assert (summary.new, summary.changed) == (len(local.images.ids[0::3]), 0)
    encode_files(encoder, find_images([str(shards)]), out=tmp_path / "anew")
    assert content(tmp_path / "codes") == content(tmp_path / "anew")


def test_members_that_are_no_plain_files_are_rows(encoder, photos, local, tmp_path, monkeypatch):
    good = (photos / local.images.ids[0]).read_bytes()
    monkeypatch.setattr(tar, "LARGEST", len(good))
    path = make_tar(
        tmp_path / "a.tar",
        member("./good.png", b"an earlier one"),
        member("../up.png", good),
        member("/root.png", good),
        member("a/../../up.png", good),
        member("soft.png", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("hard.png", b"", type=tarfile.LNKTYPE, linkname="good.png"),
        member("pipe.png", b"", type=tarfile.FIFOTYPE),
        member("disk.png", b"", type=tarfile.BLKTYPE, devmajor=8),
        member("large.png", good + b"more"),
        member(os.fsdecode(b"\xff.png"), good),
        member("empty.png", b""),
        member("folder.png", b"", type=tarfile.DIRTYPE),
        member("notes.txt", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("__MACOSX/1.png", good),
        member("good.png", good),
    )
    images = find_images([str(path)])
    assert images.left_out == {"files that are no images by name": 1, "files in __MACOSX folders": 1}
    encode_files(encoder, images, out=tmp_path / "codes")
    codes, errors = codes_of(tmp_path / "codes")
    assert codes == {"good.png": codes_of(local.out)[0][local.images.ids[0]]}
    outside, plain = "its name leads out of the archive", "not a regular file"
    assert errors == {
        **dict.fromkeys(["../up.png", "/root.png", "a/../../up.png"], outside),
        **dict.fromkeys(["soft.png", "hard.png", "pipe.png", "disk.png"], plain),
        "large.png": "more than the 1073741824 bytes allowed: make it smaller",
        "\\udcff.png": "its name is not UTF-8",
        "empty.png": "the file is empty",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "codes"]


def test_a_sparse_member_is_a_row_whatever_size_it_claims(tmp_path):
    sparse = tarfile.TarInfo("sparse.png")
    sparse.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 60), "GNU.sparse.numblocks": "1"}
    path = make_tar(tmp_path / "a.tar", (sparse, None), member("good.png"), format=tarfile.PAX_FORMAT)
    images = find_images([str(path)])
    first, second = images.source.read(images.ids, first=0)
    assert (str(first), second) == ("not a regular file", b"bad")


def cut(path):
    path.write_bytes(path.read_bytes()[:700])


def break_a_header(path):
    whole = bytearray(path.read_bytes())
    whole[1024:1536] = b"x" * 512
    path.write_bytes(whole)


def compress(path):
    made = path.with_suffix(".gz")
    make_tar(made.with_suffix(".other"), member("1.png"))
    with tarfile.open(made, "w:gz") as archive:
        archive.addfile(*member("1.png"))
    made.replace(path)


@pytest.mark.parametrize(
    "damage",
    [cut, break_a_header, compress, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"x" * 4096)],
)
def test_an_archive_that_is_not_whole_ends_the_run_before_anything_is_written(tmp_path, damage):
    path = make_tar(tmp_path / "a.tar", member("1.png", b"x" * 500), member("2.png"))
    damage(path)
    with pytest.raises(DataError, match=r"^a\.tar is no whole TAR archive \(.*\): fetch or make it again") as refused:
        find_images([str(path)], root=str(tmp_path))
    assert "\n" not in str(refused.value)


def test_an_archive_without_an_end_is_whole(tmp_path):
    path = make_tar(tmp_path / "a.tar", member("1.png"))
    path.write_bytes(path.read_bytes()[:1024])
    assert find_images([str(path)]).ids == ["1.png"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.tar", "b.tar"], "'1.png' is in a.tar and in b.tar, and ids must differ: encode each"),
        (["a.tar", "1.png"], "found the archive a.tar beside the image 1.png"),
        (["a.tar.gz"], "a.tar.gz is compressed as a whole: unpack it"),
        (["empty.tar"], "found no image in empty.tar (left out: 1 files that are no images by name)"),
        (["folder.tar"], "there is no image"),
        (["pipe.tar"], "is no regular file, so it is no archive"),
    ],
)
def test_archives_that_cannot_be_encoded_are_one_sentence(tmp_path, monkeypatch, names, message):
    monkeypatch.chdir(tmp_path)
    for name in ("a.tar", "b.tar", "a.tar.gz"):
        make_tar(tmp_path / name, member("1.png"))
    make_tar(tmp_path / "empty.tar", member("1.json"))
    (tmp_path / "1.png").touch()
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(DataError) as refused:
        find_images(names)
    assert message in str(refused.value)


def test_archives_beside_images_in_a_folder_are_left_out(photos, tmp_path):
    shutil.copytree(photos, tmp_path / "photos")
    make_tar(tmp_path / "photos/backup.tar", member("1.png"))
    images = find_images([str(tmp_path / "photos")])
    assert images.ids == find_images([str(photos)]).ids
    assert images.left_out["files that are no images by name"] == 2


def test_an_archive_that_changes_after_it_was_listed_gives_rows(tmp_path):
    path = make_tar(tmp_path / "a.tar", member("1.png"), member("2.png"))
    images = find_images([str(path)])
    make_tar(path, member("2.png", b"other"), member("1.png", b"another"))
    assert {str(one) for one in images.source.read(images.ids, first=0)} == {
        "its archive has changed since it was listed"
    }


def test_globs_leave_out_members(shards, local):
    images = find_images([str(shards)], exclude=["b/**"])
    assert sorted(images.ids) == [name for name in local.images.ids if not name.startswith("b/")]
    last = images.ids[-1]
    assert isinstance(next(images.source.read([last], first=len(images.ids) - 1)), bytes)


def test_an_archive_in_a_store_gives_what_its_file_gives(encoder, shards, tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install 'nsh[remote]'")
    store = fsspec.filesystem("memory")
    store.put(f"{shards}/", "/archives/", recursive=True)
    images = find_images(["memory://archives"])
    assert images.ids == find_images([str(shards)]).ids
    encode_files(encoder, images, out=tmp_path / "remote")
    encode_files(encoder, find_images([str(shards)]), out=tmp_path / "codes")
    assert content(tmp_path / "remote") == content(tmp_path / "codes")
    store.pipe("/archives/001.tar", b"cut")
    with pytest.raises(DataError, match=r"^001\.tar is no whole TAR archive"):
        find_images(["memory://archives"])
    store.rm("/archives", recursive=True)
    with pytest.raises(DataError, match=r"memory://archives/000\.tar cannot be read: 404 Not Found"):
        find_images(["memory://archives/000.tar"])


@pytest.mark.parametrize("at_once", [1 << 20, 0])
def test_reading_starts_anywhere(shards, local, photos, monkeypatch, at_once):
    monkeypatch.setattr(tar, "_AT_ONCE", at_once)
    images = find_images([str(shards)])
    assert sorted(images.ids) == local.images.ids
    expected = [(photos / name).read_bytes() for name in images.ids]
    for first in range(len(images.ids)):
        assert list(images.source.read(images.ids[first:], first=first)) == expected[first:]
