"""Thirty photographs in two folders, and how they are encoded into a folder."""

import shutil

import pytest
from PIL import Image

from nsh.serving import bulk
from nsh.serving.arguments import list_images
from nsh.serving.bulk import encode_files
from nsh.serving.encoder import Encoder

IMAGES = 30


@pytest.fixture(scope="module")
def encoder(encoder_path):
    return Encoder(encoder_path, threads=2)


@pytest.fixture(scope="module")
def pristine(photographs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pristine")
    for row in range(IMAGES):
        path = folder / "ab"[row % 2] / f"{row:02} 語.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(photographs[row]).save(path)
    return folder


@pytest.fixture
def photos(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "photos")


@pytest.fixture
def short_shards(monkeypatch):
    monkeypatch.setattr(bulk, "SHARD_ROWS", 7)


def encode(encoder, photos, out, **options):
    return encode_files(encoder, list_images([str(photos)]), out=out, **options)


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
