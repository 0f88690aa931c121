"""Squares on the disk: the reader's pixels, made once, taken up again after a cut, and never those of other images."""

import numpy as np
import pytest
from PIL import Image

from nsh.core.preprocess import to_input
from nsh.errors import DataError, UnreadableImage
from nsh.system.files import read_json
from nsh.system.progress import no_progress
from nsh.training.finetune import image_cache as module
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.image_cache import begin_cache, fill_cache, name_cache, open_cache

COUNT, SIZE = 10, 14


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    monkeypatch.setattr(module, "SHARD", 4)


def make_images(width=30, height=20):
    noise = np.random.default_rng(0).integers(0, 256, (COUNT, height, width, 3), dtype=np.uint8)
    return [Image.fromarray(one) for one in noise]


def files(images, load=None, **changes):
    settings = {"digest": "noise", "size": SIZE, "resample": "bicubic", "workers": 2, **changes}
    return ImageFiles(
        ids=[str(row) for row in range(len(images))], load=load or (lambda name: images[int(name)]), **settings
    )


def fill(images, folder, rank=0, ranks=1, progress=no_progress):
    begin_cache(images, folder)
    fill_cache(images, folder, rank=rank, ranks=ranks, progress=progress)


def read(cache, rows):
    squares = np.zeros((len(rows), cache.side, cache.side, 3), np.uint8)
    cache.read(np.array(rows), squares)
    return squares


def test_squares_are_what_the_reader_gives_and_sizes_the_originals(tmp_path):
    images = make_images()
    images[3] = images[3].resize((5, 90))
    fill(files(images), tmp_path)
    cache = open_cache(tmp_path)
    assert cache.side == 16
    assert [shard.shape for shard in cache.shards] == [(4, 16, 16, 3), (4, 16, 16, 3), (2, 16, 16, 3)]
    assert cache.bytes == 10 * 16 * 16 * 3
    assert cache.sizes.tolist() == [[5, 90] if row == 3 else [30, 20] for row in range(COUNT)]
    for row, square in zip([9, 3, 3, 0], read(cache, [9, 3, 3, 0]), strict=True):
        assert np.array_equal(square, to_input(images[row], size=16, resample="bicubic"))


@pytest.mark.parametrize(
    ("size", "width", "height", "side"),
    [(224, 500, 375, 256), (224, 32, 32, 32), (96, 110, 20, 110), (96, 20, 109, 109), (96, 900, 10, 110)],
)
def test_the_side_is_enough_and_no_longer_than_the_longest_image(tmp_path, size, width, height, side):
    fill(files(make_images(width, height)[:2], size=size), tmp_path)
    assert open_cache(tmp_path).side == side


def test_images_as_small_as_their_squares_keep_their_pixels(tmp_path):
    images = make_images(12, 12)
    fill(files(images), tmp_path)
    assert np.array_equal(read(open_cache(tmp_path), range(COUNT)), np.stack([np.asarray(image) for image in images]))


def test_a_finished_store_is_read_no_more(tmp_path):
    images = make_images()
    fill(files(images), tmp_path)

    def load(name):
        raise AssertionError(name)

    def progress(iterable, *, desc="", total=None):
        raise AssertionError(desc)

    fill(files(images, load=load), tmp_path, progress=progress)


def test_a_cut_run_goes_on_behind_its_last_whole_shard(tmp_path):
    images, read_again = make_images(), []

    def cut(name):
        if name == "9":
            raise UnreadableImage("the file is empty")
        return images[int(name)]

    with pytest.raises(DataError, match=r"image '9' was readable when the split was drawn.*the file is empty"):
        fill(files(images, load=cut, workers=1), tmp_path)
    assert not (tmp_path / "00002.npy").exists()
    done = len(list(tmp_path.glob("0000?.npy")))

    def load(name):
        read_again.append(int(name))
        return images[int(name)]

    fill(files(images, load=load), tmp_path)
    assert sorted(read_again) == list(range(done * 4, COUNT))
    fill(files(images), tmp_path / "whole")
    for name in ("00000.npy", "00001.npy", "00002.npy", "00002.sizes.npy"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_ranks_make_a_part_each(tmp_path):
    images, parts = make_images(), []
    for rank in range(2):
        before = set(tmp_path.glob("0000?.npy"))
        fill(files(images), tmp_path, rank=rank, ranks=2)
        parts.append(sorted(path.name for path in set(tmp_path.glob("0000?.npy")) - before))
    assert parts == [["00000.npy", "00002.npy"], ["00001.npy"]]
    assert np.array_equal(open_cache(tmp_path).sizes, [[30, 20]] * COUNT)


def test_progress_shows_the_shards(tmp_path):
    seen = []

    def progress(iterable, *, desc="", total=None):
        seen.append((desc, total))
        return iterable

    fill(files(make_images()), tmp_path, progress=progress)
    assert seen == [("images", 3)]
    assert read_json(tmp_path / "store.json") == {"images": COUNT, "side": 16}


def test_other_images_sizes_and_filters_have_another_store():
    images = make_images()
    names = {
        name_cache(some)
        for some in (
            files(images),
            files(images, digest="other"),
            files(images, size=15),
            files(images, resample="bilinear"),
            files(images[:9]),
        )
    }
    assert len(names) == 5
    assert name_cache(files(images)) == name_cache(files(images, workers=1))
