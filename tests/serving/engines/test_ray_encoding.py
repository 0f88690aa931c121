"""Encoding on a real Ray of one machine makes the folder that one process makes, whatever happens to actors."""

import os
import shutil
import signal
import sys
import tarfile
from dataclasses import dataclass, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from PIL import Image

from nsh.core.manifest import Plan
from nsh.errors import ClusterError, ConfigError
from nsh.serving import bulk
from nsh.serving.arguments import ImageList, list_images
from nsh.serving.bulk import encode_files
from nsh.serving.encoder import Encoder
from nsh.serving.engines import ray_cluster, ray_encoding
from nsh.serving.engines.ray_cluster import connected
from nsh.serving.engines.ray_encoding import ShardActor, Work, encode_on_ray, versions
from nsh.serving.inputs import find_images
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

    def read(self, ids, *, first):
        if self.image in ids and (left := list(self.lives.iterdir())):
            left[0].unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(ids, first=first)


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
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
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


@pytest.mark.usefixtures("two_cores")
def test_a_shard_that_kills_every_actor_ends_the_run_and_what_is_written_stays(encoder, deadly, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_encoding, "RETRIES", 0)
    failed = pytest.raises(
        ClusterError, match=r"^Ray at local failed \(.*\): what is written stays, run the same command"
    )
    with failed, ray_cluster.translated("local"):
        encode_on_ray(encoder, deadly(lives=100), out=tmp_path / "codes", threads=2)
    assert not (tmp_path / "codes/header.json").exists()
    assert encode_files(encoder, deadly(lives=0), out=tmp_path / "codes").complete


@pytest.mark.usefixtures("two_cores")
def test_more_cores_than_a_machine_has_are_refused_before_anything_is_written(encoder, photos, tmp_path):
    with pytest.raises(ConfigError, match="found threads = 3: the largest machine of the Ray cluster offers 2 cores"):
        encode_on_ray(encoder, list_images([str(photos)]), out=tmp_path / "codes", threads=3)
    assert not (tmp_path / "codes").exists()


@pytest.fixture
def web(photos):
    """The photographs on a web server of this machine."""
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *arguments: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=photos)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def shards(photos, tmp_path):
    """The photographs in two TAR archives."""
    names = sorted(path.name for path in photos.iterdir())
    for number in range(2):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as archive:
            for name in names[number::2]:
                archive.add(photos / name, arcname=name)
    return str(tmp_path)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("place", ["web", "shards"])
def test_images_in_a_store_or_in_archives_give_what_one_process_makes(encoder, request, tmp_path, place):
    if place == "web":
        pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'nsh[remote]'")
    images = find_images([request.getfixturevalue(place)])
    expected = encode_files(encoder, images, out=tmp_path / "one")
    assert encode_on_ray(encoder, images, out=tmp_path / "many", threads=1) == expected
    assert content(tmp_path / "many") == content(tmp_path / "one")


@pytest.fixture
def work(encoder, photos, golden_encoder, tmp_path):
    """What an actor is told; its folder of codes is begun."""
    images = list_images([str(photos)])
    job = bulk.begin(encoder, images, out=tmp_path / "codes")
    model, plan = golden_encoder.read_bytes(), job.writer.plan
    told = {"model": model, "max_pixels": 10**6, "threads": 1, "batch": 4, "source": images.source}
    return Work(**told, witness=(1, images.ids[1]), out=tmp_path / "codes", plan=plan, versions=versions()), job


def test_an_actor_answers_how_many_images_it_encoded(work):
    told, job = work
    answer = ShardActor(told)(job.shards[0]._asdict())
    assert answer == {"kept": 0, "new": ROWS, "changed": 0, "error": ""}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"versions": {"nsh": "0.0.1"}}, "the run was started with {'nsh': '0.0.1'}: install the same versions"),
        ({"source": Files(Path("/nowhere"))}, "cannot be read, which is an image elsewhere: share its folder"),
        (
            {"out": Path("/nowhere")},
            "/nowhere does not hold the codes that were begun: name a folder that machines share",
        ),
    ],
)
def test_a_machine_that_does_not_fit_says_why_and_writes_nothing(work, change, message):
    told, job = work
    answer = ShardActor(replace(told, **change))(job.shards[0]._asdict())
    assert message in answer["error"]
    assert [path.name for path in told.out.iterdir()] == ["plan.json"]


def test_a_folder_that_another_run_began_anew_is_not_mixed(work):
    told, job = work
    plan = Plan(**{**vars(told.plan), "images_sha256": "0" * 64})
    answer = ShardActor(replace(told, plan=plan))(job.shards[0]._asdict())
    assert "holds codes of another encoder or of other images" in answer["error"]
