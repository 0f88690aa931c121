"""The official archive's layout, rebuilt small; and the real tree where this machine has it."""

import io
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import CIFAR10

from nsh.data import cifar10, draw, registry
from nsh.errors import DataError, DownloadError
from nsh.system.files import sha256_file

SHARED = Path(os.environ.get("NSH_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))
TREE = SHARED / "cifar10-jpeg.tar.xz"
ROWS = 4


def batch(number: int) -> dict:
    random = np.random.default_rng(number)
    return {
        "batch_label": f"batch {number}",
        "labels": [int(label) for label in random.integers(0, 10, ROWS)],
        "data": random.integers(0, 256, (ROWS, 3072), dtype=np.uint8),
        "filenames": [f"{row}.png" for row in range(ROWS)],
    }


def as_published(value: dict) -> bytes:
    """A pickle as the archive's, which Python 2 wrote: protocol 2, byte strings, numpy's former module name."""
    return b"\x80\x02" + pickled(value) + b"."


def pickled(value: object) -> bytes:
    match value:
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            return b"J" + struct.pack("<i", value)
        case None:
            return b"N"
        case str():
            return pickled(value.encode())
        case bytes():
            return b"T" + struct.pack("<i", len(value)) + value
        case tuple():
            return b"(" + b"".join(map(pickled, value)) + b"t"
        case list():
            return b"](" + b"".join(map(pickled, value)) + b"e"
        case dict():
            return b"}(" + b"".join(pickled(key) + pickled(item) for key, item in value.items()) + b"u"
        case np.ndarray():
            empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + pickled((0,)) + pickled("b") + b"tR"
            kind = (
                b"cnumpy\ndtype\n"
                + pickled(("u1", 0, 1))
                + b"R"
                + pickled((3, "|", None, None, None, -1, -1, 0))
                + b"b"
            )
            return (
                empty
                + b"("
                + pickled(1)
                + pickled(value.shape)
                + kind
                + pickled(False)
                + pickled(value.tobytes())
                + b"tb"
            )
    raise TypeError(type(value))


def archive(path: Path, batches: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in batches.items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def batches() -> dict[str, bytes]:
    names = [name for part in cifar10.BATCHES.values() for name in part]
    return {name: as_published(batch(number)) for number, name in enumerate(names)}


def fetch(tmp_path: Path) -> list[str]:
    lines: list[str] = []
    registry.fetch("cifar10", raw=tmp_path / "raw", root=tmp_path / "root", say=lines.append, cache=tmp_path / "cache")
    return lines


def open_set(tmp_path: Path, labels: str = "folder"):
    return registry.open_images("cifar10", raw=tmp_path / "raw", root=tmp_path / "root", labels=labels)


def test_the_archive_becomes_images_and_labels(
    tmp_path: Path, batches: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path / "root" / cifar10.ARCHIVE, batches)
    monkeypatch.setattr(cifar10, "SHA256", sha256_file(path))
    assert fetch(tmp_path) == [f"cifar10: taken from {path}"]
    images = open_set(tmp_path)
    assert images.parts == ["train"] * 5 * ROWS + ["test"] * ROWS
    assert images.labels == [(label,) for number in range(6) for label in batch(number)["labels"]]
    second = batch(1)
    red, green, blue = second["data"][2].reshape(3, 32, 32)
    pixels = np.asarray(images.image(f"train/{ROWS + 2:05d}", size=32))
    np.testing.assert_array_equal(pixels, np.dstack([red, green, blue]))
    assert open_set(tmp_path, "none").labels is None


def test_a_wrong_archive_is_refused(tmp_path: Path, batches: dict[str, bytes]) -> None:
    archive(tmp_path / "root" / cifar10.ARCHIVE, batches)
    with pytest.raises(DownloadError, match="is not the published file"):
        fetch(tmp_path)
    assert not (tmp_path / "raw").exists()


class Trap:
    def __reduce__(self):
        return os.system, ("touch trapped",)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (pickle.dumps(Trap(), protocol=2), "it asks for posix.system"),
        (pickle.dumps(np.random.default_rng, protocol=2), "it asks for numpy.random"),
        (as_published({"data": np.zeros((2, 3072), np.uint8)}), "labels"),
        (as_published({"data": np.zeros((2, 5), np.uint8), "labels": [0, 1]}), "reshape"),
        (b"no pickle", ""),
    ],
)
def test_nothing_in_a_batch_is_called(
    tmp_path: Path, batches: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, content: bytes, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = archive(tmp_path / "archive.tar.gz", {**batches, "data_batch_3": content})
    with pytest.raises(DataError, match=rf"no readable batch data_batch_3 .*{complaint}"):
        cifar10.unpack(path, into=tmp_path / "raw")
    assert not (tmp_path / "trapped").exists()
    assert not (tmp_path / "raw").exists()


def test_a_missing_batch_is_named(tmp_path: Path, batches: dict[str, bytes]) -> None:
    del batches["test_batch"]
    with pytest.raises(DataError, match="no readable batch test_batch"):
        cifar10.unpack(archive(tmp_path / "archive.tar.gz", batches), into=tmp_path / "raw")


def test_without_a_source_the_ways_out_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CIFAR10, "url", "http://127.0.0.1:9/cifar-10-python.tar.gz")
    with pytest.raises(
        DownloadError, match=r"cannot be reached.*or put cifar-10-python.tar.gz, or the images as train"
    ):
        fetch(tmp_path)


def test_an_image_tree_comes_first(tmp_path: Path) -> None:
    for name in ("train/cat/1.png", "train/dog/1.png", "test/cat/1.png"):
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True)
        Image.new("RGB", (32, 32)).save(path)
    fetch(tmp_path)
    images = open_set(tmp_path)
    assert (images.name, images.classes) == ("cifar10", ("cat", "dog"))
    assert sorted(images.parts) == ["test", "train", "train"]


@pytest.mark.skipif(not TREE.exists(), reason="no CIFAR-10 tree on this machine (NSH_SHARED_DATA)")
@pytest.mark.slow
def test_the_real_tree_gives_the_papers_protocol(tmp_path: Path) -> None:
    """Every fiftieth image of it: 1,000 for training and 200 for testing."""
    with tarfile.open(TREE) as tar:
        chosen = [member for member in tar if member.isfile() and int(Path(member.name).stem) % 50 == 0]
        tar.extractall(tmp_path / "unpacked", members=chosen, filter="data")
    (root,) = [path.parent for path in (tmp_path / "unpacked").rglob("train") if path.is_dir()]
    registry.fetch("cifar10", raw=tmp_path / "raw", root=root, say=lambda line: None)
    images = registry.open_images("cifar10", raw=tmp_path / "raw", root=root, labels="folder")
    assert images.classes == tuple(sorted(cifar10.CLASSES))
    drawn = draw.draw(images, draw.Sizes(train=500, gallery=None, query=None), seed=0, threads=2)
    assert len(drawn.parts["query"].ids) == 200
    assert len(drawn.parts["gallery"].ids) == 1000 - drawn.duplicates_dropped
    assert len(drawn.parts["train"].ids) == 500
    assert not set(drawn.parts["query"].sha256) & set(drawn.parts["gallery"].sha256)
