"""Four tiny IDX files stand for the published ones, with their digests; the real ones come from a real source."""

import gzip
import hashlib
import struct
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import FashionMNIST

from nsh.data import fashion_mnist
from nsh.errors import DataError, DownloadError
from nsh.system.files import sha256_bytes
from nsh.system.progress import no_progress

COUNTS = {"train": 6, "t10k": 3}
# When the authors compressed the files: the only bytes in which Debian's copies differ, beside the name.
PACKED_AT = {"train": 1504176606, "t10k": 1504176627}


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}i", *values.shape) + values.tobytes()


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    random = np.random.default_rng(0)
    files = {}
    for prefix, count in COUNTS.items():
        files[f"{prefix}-images-idx3-ubyte"] = idx(random.integers(0, 256, (count, 28, 28), dtype=np.uint8))
        files[f"{prefix}-labels-idx1-ubyte"] = idx(np.arange(count, dtype=np.uint8))
    monkeypatch.setattr(fashion_mnist, "SHA256", {name: sha256_bytes(data) for name, data in files.items()})
    return files


@pytest.fixture
def no_other_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(FashionMNIST, "mirrors", ["http://127.0.0.1:9/"])
    monkeypatch.setenv("PATH", str(tmp_path))


def lay(folder: Path, files: dict[str, bytes], *, compressed: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        if compressed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            (folder / name).write_bytes(data)


def fetch(tmp_path: Path) -> list[str]:
    lines: list[str] = []
    fashion_mnist.fetch(
        raw=tmp_path / "raw", root=tmp_path / "root", cache=tmp_path / "cache", progress=no_progress, say=lines.append
    )
    return lines


@pytest.mark.parametrize("compressed", [True, False])
def test_files_fetched_by_hand_come_first(tmp_path: Path, published: dict[str, bytes], compressed: bool) -> None:
    lay(tmp_path / "root", published, compressed=compressed)
    assert fetch(tmp_path) == [f"fashion-mnist: taken from the files in {tmp_path / 'root'}"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "raw").iterdir()} == published


def test_every_image_keeps_its_pixels_and_label(tmp_path: Path, published: dict[str, bytes]) -> None:
    lay(tmp_path / "root", published, compressed=True)
    fetch(tmp_path)
    images = fashion_mnist.open_images(raw=tmp_path / "raw")
    assert images.ids == [f"train/{row:05d}" for row in range(6)] + [f"test/{row:05d}" for row in range(3)]
    assert images.parts == ["train"] * 6 + ["test"] * 3
    assert images.labels == [(row,) for row in [0, 1, 2, 3, 4, 5, 0, 1, 2]]
    last = published["t10k-images-idx3-ubyte"][-28 * 28 :]
    assert images.content("test/00002") == last
    assert images.inspect("test/00002") == hashlib.sha256(last).hexdigest()
    picture = images.image("test/00002", size=28)
    assert (picture.mode, picture.size) == ("RGB", (28, 28))
    assert np.asarray(picture)[:, :, 1].tobytes() == last
    with pytest.raises(DataError, match="has no image 'test/00003'"):
        images.image("test/00003", size=28)


def test_torchvisions_address_comes_second(
    tmp_path: Path, published: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path / "web", published, compressed=True)
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *arguments: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path / "web"))
    monkeypatch.setattr(FashionMNIST, "mirrors", [f"http://127.0.0.1:{server.server_port}/"])
    digests = [(path.name, hashlib.md5(path.read_bytes()).hexdigest()) for path in (tmp_path / "web").iterdir()]
    monkeypatch.setattr(FashionMNIST, "resources", digests)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    try:
        lines = fetch(tmp_path)
    finally:
        server.shutdown()
        server.server_close()
    assert lines[-1] == "fashion-mnist: taken from the address torchvision knows"
    assert {path.name: path.read_bytes() for path in (tmp_path / "raw").iterdir()} == published


def test_without_any_source_the_four_files_and_their_place_are_named(
    tmp_path: Path, published: dict[str, bytes], no_other_source: None
) -> None:
    lay(tmp_path / "root", dict(list(published.items())[:3]), compressed=True)
    with pytest.raises(DownloadError) as caught:
        fetch(tmp_path)
    assert all(f"{name}.gz" in str(caught.value) for name in published)
    assert str(tmp_path / "root") in str(caught.value)
    assert not (tmp_path / "raw").exists()


def test_each_source_that_failed_says_why(tmp_path: Path, no_other_source: None) -> None:
    lines: list[str] = []
    with pytest.raises(DownloadError):
        fashion_mnist.fetch(
            raw=tmp_path / "raw", root=tmp_path, cache=tmp_path / "cache", progress=no_progress, say=lines.append
        )
    told = [line for line in lines if ": not from " in line]
    assert "cannot be reached" in told[0]
    assert "apt-get and dpkg-deb are not on this machine" in told[1]


@pytest.mark.parametrize("compressed", [True, False])
def test_a_wrong_file_fetched_by_hand_is_refused(tmp_path: Path, published: dict[str, bytes], compressed: bool) -> None:
    wrong = {**published, "t10k-labels-idx1-ubyte": idx(np.zeros(3, dtype=np.uint8))}
    lay(tmp_path / "root", wrong, compressed=compressed)
    with pytest.raises(DownloadError, match=r"t10k-labels-idx1-ubyte.* is not the published file .* delete it"):
        fetch(tmp_path)
    assert not (tmp_path / "raw").exists()


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"no gzip", lambda data: data[:40] + b"?" * 9])
def test_a_damaged_gzip_is_refused(tmp_path: Path, published: dict[str, bytes], damage) -> None:
    lay(tmp_path / "root", published, compressed=True)
    path = tmp_path / "root" / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DownloadError, match="delete it"):
        fetch(tmp_path)


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: b"\1" + data[1:]])
def test_a_damaged_raw_file_is_refused(tmp_path: Path, published: dict[str, bytes], damage) -> None:
    lay(tmp_path / "raw", published, compressed=False)
    path = tmp_path / "raw" / "t10k-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match="is no whole IDX file"):
        fashion_mnist.open_images(raw=tmp_path / "raw")


def test_nothing_fetched_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run `dvc repro download`"):
        fashion_mnist.open_images(raw=tmp_path)


@pytest.mark.slow
def test_the_debian_package_holds_the_bytes_of_torchvisions_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put back the name and time that Debian strips from the gzip headers, and torchvision's MD5 must come out."""
    monkeypatch.setattr(FashionMNIST, "mirrors", ["http://127.0.0.1:9/"])
    try:
        fetch(tmp_path)
    except DownloadError as error:
        pytest.skip(f"no Debian sources here: {error}")
    assert len(fashion_mnist.open_images(raw=tmp_path / "raw").ids) == 70_000
    folder = tmp_path / "cache/fashion-mnist-debian/usr/share/datasets/fashion-mnist"
    for name, md5 in FashionMNIST.resources:
        packed_at = struct.pack("<I", PACKED_AT[name.partition("-")[0]])
        header = b"\x1f\x8b\x08\x08" + packed_at + b"\x00\x03" + name.removesuffix(".gz").encode() + b"\0"
        assert hashlib.md5(header + (folder / name).read_bytes()[10:]).hexdigest() == md5
