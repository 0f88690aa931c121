import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nsh.system.files import atomic_path, try_to_write, write_text
from nsh.system.mounts import file_system, is_mount_point
from nsh.system.places import explain


@pytest.fixture
def places(tmp_path):
    """A folder with a file and two links that lead to each other."""
    (tmp_path / "file").touch()
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "reason", "said"),
    [
        ("absent", "No such file", "check the path"),
        ("file/below", "Not a directory", "one of its parts is a file"),
        (".", "Is a directory", "this is a folder"),
        ("x" * 300, "too long", "choose a shorter name"),
        ("one", "Too many levels", "they lead back to themselves"),
    ],
)
def test_a_place_is_named_with_what_to_do(places, name, reason, said):
    with pytest.raises(OSError, match=reason) as raised:
        (places / name).read_bytes()
    sentence = explain(raised.value)
    assert sentence.startswith(f"{places / name} cannot be used (")
    assert sentence.endswith(said)


def test_of_two_places_the_one_to_be_made_is_named(places):
    (places / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        (places / "file").replace(places / "folder")
    assert explain(raised.value).startswith(f"{places / 'folder'} cannot be used")


def test_an_error_that_names_no_place_is_not_explained():
    assert explain(OSError(errno.ENOENT, "absent")) is None
    assert explain(ConnectionRefusedError(errno.ECONNREFUSED, "refused")) is None
    assert explain(OSError("a library's own")) is None


def test_too_many_open_files_name_the_limit():
    assert "ulimit -n" in explain(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("file/below", "exists"), (".", "Is a directory"), ("x" * 300, "too long"), ("one/a", "exists")],
)
def test_what_cannot_be_written_is_found_before_the_work(places, name, reason):
    with pytest.raises(OSError, match=reason):
        try_to_write(places / name)


@pytest.mark.parametrize("name", ["file", "new", "deep/new", "x" * 250])
def test_what_can_be_written_is_left_as_it_is(places, name):
    before = (places / name).exists()
    try_to_write(places / name)
    assert (places / name).exists() == before
    write_text(places / name, "1")
    assert (places / name).read_text() == "1"
    assert [path.name for path in (places / name).parent.iterdir() if path.name.startswith(".")] == []


def test_a_device_is_written_and_not_replaced():
    write_text(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()


def write_by_numpy(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(10**6, np.uint8))


def write_by_a_library_of_its_own(path):
    """As torch does: the reason is lost."""
    try:
        path.write_bytes(bytes(10**6))
    except OSError:
        raise RuntimeError("unexpected pos 576 vs 534") from None


@pytest.mark.parametrize(
    "write", [write_by_numpy, write_by_a_library_of_its_own, lambda path: path.write_bytes(bytes(10**6))]
)
def test_a_full_disk_is_called_so_whoever_writes(tmp_path, mount, write):
    mount("-t", "tmpfs", "-o", "size=100k", "none", tmp_path)
    with pytest.raises(OSError, match="No space left") as raised, atomic_path(tmp_path / "large") as partial:
        write(partial)
    assert explain(raised.value).startswith(f"the disk is full while writing {tmp_path / 'large'}: free some space")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_read_only_is_called_so(tmp_path, mount_read_only):
    mount_read_only(tmp_path, tmp_path)
    with pytest.raises(OSError, match="Read-only") as raised:
        write_text(tmp_path / "report.html", "")
    assert explain(raised.value).startswith(f"{tmp_path / 'report.html'} cannot be used (Read-only file system)")


def test_mounts_are_known(tmp_path, mount):
    for name in ("tmpfs \\ of its own", "bound", "plain"):
        (tmp_path / name).mkdir()
    mount("-t", "tmpfs", "none", tmp_path / "tmpfs \\ of its own")
    mount("--bind", tmp_path / "plain", tmp_path / "bound")
    assert is_mount_point(tmp_path / "tmpfs \\ of its own")
    assert is_mount_point(tmp_path / "bound")
    assert not is_mount_point(tmp_path / "plain")
    assert file_system(tmp_path / "tmpfs \\ of its own" / "absent" / "below") == "tmpfs"
    assert file_system(Path("/proc/self")) == "proc"


KILLED = """
import os, sys
from pathlib import Path
from nsh.system.{module} import {name}
with {name}(Path(sys.argv[1])) as partial:
    (partial / "half" if partial.is_dir() else partial).write_text("half")
    os.kill(os.getpid(), 9)
"""


def kill(path, module, name):
    code = KILLED.format(module=module, name=name)
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    return [entry.name for entry in path.parent.iterdir() if entry.name.startswith(".")]


def test_what_a_dead_writer_left_is_taken_over_and_a_living_ones_is_not(tmp_path):
    assert kill(tmp_path / "a", "files", "atomic_path") == [".a.0.partial"]
    with atomic_path(tmp_path / "a") as first, atomic_path(tmp_path / "a") as second:
        assert first.name == ".a.0.partial"
        assert second != first
        first.write_text("first")
        second.write_text("second")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "first"}
