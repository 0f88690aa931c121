"""Encoding on a real Ray of one machine makes the folder that one process makes, whatever happens to actors."""

import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from PIL import Image

from nsh.serving import bulk
from nsh.serving.arguments import ImageList, list_images
from nsh.serving.bulk import encode_files
from nsh.serving.encoder import Encoder
from nsh.serving.engines import ray_cluster
from nsh.serving.engines.ray_cluster import connected
from nsh.serving.engines.ray_encoding import encode_on_ray
from nsh.serving.sources import Files

IMAGES, ROWS = 20, 4

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray warns of names that Ray itself uses


@pytest.fixture(scope="module")
def encoder(golden_encoder):
    return Encoder(golden_encoder, threads=1)


@pytest.fixture(scope="module")
def photos(photographs, tmp_path_factory):
    """Good images, and bad ones in the first and the last shard."""
    folder = tmp_path_factory.mktemp("photos")
    for row in range(IMAGES):
        Image.fromarray(photographs[row]).save(folder / f"{row:02} 語.png")
    (folder / "00 cut.png").write_bytes((folder / "00 語.png").read_bytes()[:-800])
    (folder / "z.jpg").write_bytes(b"bad")
    (folder / "zz.jpg").symlink_to(folder / "nowhere.jpg")
    return folder


@pytest.fixture(scope="module", autouse=True)
def short_shards():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "SHARD_ROWS", ROWS)
        yield


@pytest.fixture(scope="module")
def serial(encoder, photos, tmp_path_factory):
    """What one process makes: the folder's content and the summary."""
    out = tmp_path_factory.mktemp("serial")
    summary = encode_files(encoder, list_images([str(photos)]), out=out)
    return content(out), summary


@pytest.fixture(scope="module")
def two_cores():
    """One Ray for all tests of this file."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'nsh[ray]'")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_cluster, "cpu_quota", lambda: 2)
        with connected("local"):
            yield


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.mark.usefixtures("two_cores")
def test_a_run_that_is_cut_goes_on_and_makes_what_one_process_makes(encoder, photos, serial, tmp_path):
    images, out = list_images([str(photos)]), tmp_path / "codes"
    counted = []

    def cut(iterable, *, desc="", total=None):
        counted.append((desc, total))
        for number, item in enumerate(iterable):
            if number == ROWS:  # the second answer has come
                raise KeyboardInterrupt
            yield item

    with pytest.raises(KeyboardInterrupt):
        encode_on_ray(encoder, images, out=out, threads=1, progress=cut)
    assert counted == [("encode", IMAGES + 3)]
    assert not (out / "header.json").exists()
    summary = encode_on_ray(encoder, images, out=out, threads=1)
    assert content(out) == serial[0]
    assert summary.kept >= 2 * ROWS - 2  # of each shard, those that have a code
    assert replace(summary, kept=0, new=summary.new + summary.kept) == serial[1]


@dataclass(frozen=True)
class Deadly(Files):
    """Kills the process that reads the image `image`, as often as there are files in `lives`."""

    image: str
    lives: Path

    def read(self, image_id):
        if image_id == self.image and (left := list(self.lives.iterdir())):
            left[0].unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(image_id)


@dataclass(frozen=True)
class DeadlyImages(ImageList):
    lives: Path

    @property
    def source(self):
        return Deadly(self.root, self.ids[2 * ROWS + 1], self.lives)


@pytest.fixture
def deadly(photos, tmp_path):
    """A function that gives the images, one of which kills so many readers."""

    def make(lives):
        found, folder = list_images([str(photos)]), tmp_path / "lives"
        folder.mkdir(exist_ok=True)
        for life in range(lives):
            (folder / str(life)).touch()
        return DeadlyImages(found.root, found.ids, found.left_out, folder)

    return make


@pytest.mark.usefixtures("two_cores")
def test_an_actor_killed_in_the_middle_of_a_shard_loses_nothing(encoder, deadly, serial, tmp_path):
    images = deadly(lives=1)
    summary = encode_on_ray(encoder, images, out=tmp_path / "codes", threads=1)
    assert list(images.lives.iterdir()) == []
    assert content(tmp_path / "codes") == serial[0]
    assert (summary.images, summary.errors, summary.complete) == (IMAGES + 3, serial[1].errors, True)
