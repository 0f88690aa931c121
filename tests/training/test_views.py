import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nsh.core.preprocess import to_input
from nsh.errors import DataError, UnreadableImage
from nsh.system.progress import no_progress
from nsh.training.augment import augment, view_generator
from nsh.training.views import Embedder, copy_rows, embed_images, embed_views

SIZE, DIM, COUNT, VIEWS, SEED = 8, 5, 23, 3, 11
IDS = [f"train/{row:05d}" for row in range(COUNT)]
PROJECTION = np.random.default_rng(1).normal(size=(SIZE * SIZE * 3, DIM)).astype(np.float32)

CUT = 12  # images; a whole number of batches
KILLED = """
import sys, threading
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_views as case

def load(name):
    if name >= case.IDS[case.CUT]:
        threading.Event().wait()
    return case.load(name)

def show(batches, *, desc, total):
    for batch in batches:
        yield batch
        print("written", flush=True)

case.{function}(Path({path!r}), load=load, progress=show)
"""


def load(name: str) -> Image.Image:
    pixels = np.random.default_rng(int(name.partition("/")[2])).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def embed(images: np.ndarray) -> np.ndarray:
    assert images.dtype == np.uint8
    assert images.shape[1:] == (SIZE, SIZE, 3)
    return np.stack([image.reshape(-1).astype(np.float32) @ PROJECTION / 1000 for image in images])


def embedder(**changes) -> Embedder:
    plain = {"load": load, "embed": embed, "dim": DIM, "size": SIZE, "resample": "bilinear", "batch": 4, "workers": 2}
    return Embedder(**(plain | changes))


def clean(path: Path, *, progress=no_progress, **changes) -> Path:
    embed_images(IDS, embedder=embedder(**changes), path=path, progress=progress)
    return path


def augmented(path: Path, *, progress=no_progress, **changes) -> Path:
    embed_views(IDS, embedder=embedder(**changes), views=VIEWS, seed=SEED, path=path, progress=progress)
    return path


class Counting:
    """`load` that counts, and breaks at one image."""

    def __init__(self, breaks_at: int | None = None, error: Exception | None = None) -> None:
        self.names: list[str] = []
        self.breaks_at, self.error = breaks_at, error

    def __call__(self, name: str) -> Image.Image:
        self.names.append(name)
        if self.breaks_at is not None and name == IDS[self.breaks_at]:
            raise self.error
        return load(name)


WRITERS = pytest.mark.parametrize("write", [clean, augmented], ids=["images", "views"])


class TestValues:
    def test_images_are_those_of_a_plain_loop(self, tmp_path):
        found = np.load(clean(tmp_path / "a.npy"))
        expected = [embed(to_input(load(name), size=SIZE, resample="bilinear")[None])[0] for name in IDS]
        assert found.dtype == np.float32
        assert np.array_equal(found, np.stack(expected))

    def test_views_are_those_of_a_plain_loop(self, tmp_path):
        found = np.load(augmented(tmp_path / "a.npy"))
        assert found.dtype == np.float16
        assert found.shape == (COUNT, VIEWS, DIM)
        for row, name in enumerate(IDS):
            for view in range(VIEWS):
                generator = view_generator(SEED, image=row, view=view)
                pixels = augment(load(name), generator, size=SIZE, resample="bilinear")
                assert np.array_equal(found[row, view], embed(pixels[None])[0].astype(np.float16))

    @WRITERS
    def test_workers_change_no_byte(self, write, tmp_path):
        contents = {write(tmp_path / f"{workers}.npy", workers=workers).read_bytes() for workers in (1, 2, 5)}
        assert len(contents) == 1

    def test_more_views_than_the_batch_holds(self, tmp_path):
        assert augmented(tmp_path / "a.npy", batch=2).read_bytes() == augmented(tmp_path / "b.npy").read_bytes()

    def test_the_files_are_numpys_own(self, tmp_path):
        found = np.load(clean(tmp_path / "a.npy"))
        np.save(tmp_path / "b.npy", found)
        assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()

    def test_progress_is_told_how_much_there_is(self, tmp_path):
        told = []

        def progress(iterable, *, desc="", total=None):
            told.append((desc, total))
            return iterable

        embed_images(IDS, embedder=embedder(), path=tmp_path / "images.npy", progress=progress)
        assert told == [("images", 6)]

    def test_rows_are_copied_in_the_order_asked_for(self, tmp_path):
        source = clean(tmp_path / "a.npy")
        rows = np.random.default_rng(0).integers(0, COUNT, 9_000)
        copy_rows(source, rows, path=tmp_path / "b.npy")
        assert np.array_equal(np.load(tmp_path / "b.npy"), np.load(source)[rows])


class TestInterrupted:
    @WRITERS
    def test_a_killed_process_is_taken_up_where_it_was(self, write, tmp_path):
        whole = write(tmp_path / "whole.npy").read_bytes()
        path = tmp_path / "killed.npy"
        script = KILLED.format(tests=str(Path(__file__).parent), function=write.__name__, path=str(path))
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as process:
            written = [process.stdout.readline() for _ in range(CUT // (4 if write is clean else 1))]
            process.kill()
        assert set(written) == {b"written\n"}
        assert path.stat().st_size < len(whole)
        counting = Counting()
        assert write(path, load=counting).read_bytes() == whole
        assert sorted(counting.names) == IDS[CUT:]

    @WRITERS
    @pytest.mark.parametrize("at", [0, 7, COUNT - 1])
    def test_an_error_midway_keeps_what_was_made(self, write, at, tmp_path):
        whole = write(tmp_path / "whole.npy").read_bytes()
        path = tmp_path / "cut.npy"
        with pytest.raises(ZeroDivisionError):
            write(path, load=Counting(breaks_at=at, error=ZeroDivisionError()))
        counting = Counting()
        assert write(path, load=counting).read_bytes() == whole
        step = 4 if write is clean else 1
        assert counting.names[0] >= IDS[at - at % step]
        assert len(counting.names) == COUNT - (at - at % step)

    @WRITERS
    def test_a_cut_anywhere_is_mended(self, write, tmp_path):
        whole = write(tmp_path / "whole.npy").read_bytes()
        path = tmp_path / "cut.npy"
        for kept in range(0, len(whole), 13):
            path.write_bytes(whole[:kept])
            assert write(path).read_bytes() == whole
        path.write_bytes(whole + b"surplus")
        assert write(path).read_bytes() == whole

    def test_a_whole_file_is_left_alone(self, tmp_path):
        path = clean(tmp_path / "a.npy")
        counting = Counting()
        clean(path, load=counting)
        assert counting.names == []

    def test_a_file_of_another_array_is_begun_anew(self, tmp_path):
        path = tmp_path / "a.npy"
        np.save(path, np.full((COUNT, DIM + 1), 7, dtype=np.float32))
        assert clean(path).read_bytes() == clean(tmp_path / "b.npy").read_bytes()

    def test_after_an_error_no_more_than_what_was_begun_is_made(self, tmp_path):
        counting = Counting(breaks_at=0, error=ZeroDivisionError())
        with pytest.raises(ZeroDivisionError):
            clean(tmp_path / "a.npy", load=counting, batch=1, workers=2)
        assert len(counting.names) <= 6


class TestFailures:
    @WRITERS
    def test_an_image_that_turned_unreadable_is_named(self, write, tmp_path):
        broken = Counting(breaks_at=9, error=UnreadableImage("the file is empty"))
        with pytest.raises(
            DataError, match=r"'train/00009' was readable .* \(the file is empty\): restore it"
        ) as caught:
            write(tmp_path / "a.npy", load=broken)
        assert not isinstance(caught.value, UnreadableImage)

    @WRITERS
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_an_embedding_that_is_no_number_is_named(self, write, value, tmp_path):
        def broken(images: np.ndarray) -> np.ndarray:
            embeddings = embed(images)
            embeddings[-1, 2] = value
            return embeddings

        with pytest.raises(DataError, match=r"of image 'train/0000[03]' is NaN or infinite: check the backbone"):
            write(tmp_path / "a.npy", embed=broken)

    def test_a_view_beyond_float16_is_named(self, tmp_path):
        with pytest.raises(DataError, match="of image 'train/00000' is beyond float16's 65504"):
            augmented(tmp_path / "a.npy", embed=lambda images: embed(images) * 1e6)

    def test_the_backbone_keeps_its_promise(self, tmp_path):
        with pytest.raises(DataError, match=r"found embeddings \[4, 5\], the backbone promised \[4, 6\]"):
            clean(tmp_path / "a.npy", dim=6)

    @WRITERS
    def test_a_full_disk_says_so(self, write):
        with pytest.raises(OSError) as caught:  # noqa: PT011 (the number is the point)
            write(Path("/dev/full"))
        assert caught.value.errno == errno.ENOSPC
