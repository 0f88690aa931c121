"""Images are measured before they are decoded, and files are found under the root only."""

import io
import os

import numpy as np
import pytest
from PIL import Image

from nsh.errors import UnreadableImage
from nsh.serving.encoder import Encoder
from nsh.serving.service import images
from nsh.serving.service.metrics import Metrics


def as_file(picture, form="PNG"):
    content = io.BytesIO()
    picture.save(content, form)
    return content.getvalue()


@pytest.fixture
def encode(encoder):
    return images.ImageEncoder(encoder, bits=encoder.contract.bits, metrics=Metrics())


def limited(encoder_path, *, max_pixels):
    encoder = Encoder(encoder_path, threads=1, max_pixels=max_pixels)
    return images.ImageEncoder(encoder, bits=encoder.contract.bits, metrics=Metrics())


def test_one_pixel_too_many_is_refused_before_decoding(encoder_path, picture):
    encode = limited(encoder_path, max_pixels=4095)
    for content in (picture, picture[:60]):  # of the second there is nothing to decode
        (outcome,) = encode([content])
        assert "64 x 64 is more than the 4095 pixels" in str(outcome)


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n"])
def test_what_cannot_be_opened_is_unreadable(encode, content):
    assert isinstance(encode([content])[0], UnreadableImage)


def test_a_bomb_is_unreadable(encoder_path):
    bomb = as_file(Image.new("1", (20_000, 20_000)))
    encode = limited(encoder_path, max_pixels=25_000_000)
    assert "pixels allowed" in str(encode([bomb])[0])


def test_a_batch_has_the_codes_of_its_images_and_the_errors_of_the_others(encoder, gallery, picture):
    other = (gallery / "right" / "01.png").read_bytes()
    metrics = Metrics()
    encode = images.ImageEncoder(encoder, bits=encoder.contract.bits, metrics=metrics)
    first, error, second = encode([picture, picture[:300], other])
    assert isinstance(error, UnreadableImage)
    assert np.array_equal(np.stack([first.code, second.code]), encoder.encode([picture, other]))
    assert 'nsh_images_total{outcome="unreadable"} 1.0' in metrics.text().decode()


def test_a_batch_of_bad_images_runs_nothing(encode):
    assert [type(outcome) for outcome in encode([b"x", b"y"])] == [UnreadableImage, UnreadableImage]


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "inner" / "a.png").write_bytes(b"a")
    (tmp_path / "secret.png").write_bytes(b"s")
    return root


def test_files_under_the_root_are_found(root):
    assert images.resolve_inside(root, "inner/a.png") == root / "inner" / "a.png"
    assert images.resolve_inside(root, "inner/../inner/a.png") == root / "inner" / "a.png"


@pytest.mark.parametrize(
    "name",
    ["../secret.png", "inner/../../secret.png", "/etc/passwd", "..", ".", "", "inner", "nothing", "a\0b", "x" * 5000],
)
def test_nothing_else_is_found(root, name):
    assert images.resolve_inside(root, name) is None


def test_an_absolute_name_of_a_file_outside_is_not_found(root):
    assert images.resolve_inside(root, str(root.parent / "secret.png")) is None


def test_links_are_judged_by_where_they_end(root):
    (root / "out").symlink_to(root.parent)
    (root / "out.png").symlink_to(root.parent / "secret.png")
    (root / "loop").symlink_to(root / "loop")
    (root / "in.png").symlink_to(root / "inner" / "a.png")
    assert images.resolve_inside(root, "out/secret.png") is None
    assert images.resolve_inside(root, "out.png") is None
    assert images.resolve_inside(root, "loop") is None
    assert images.resolve_inside(root, "in.png") == root / "inner" / "a.png"


def test_a_sibling_whose_name_begins_alike_is_outside(root):
    (root.parent / "root-too").mkdir()
    (root.parent / "root-too" / "a.png").write_bytes(b"a")
    assert images.resolve_inside(root, "../root-too/a.png") is None


def test_a_pipe_is_not_opened(root):
    os.mkfifo(root / "pipe.png")
    assert images.resolve_inside(root, "pipe.png") is None


def test_a_root_that_is_a_link_works(root):
    link = root.parent / "link"
    link.symlink_to(root)
    assert images.resolve_inside(link, "inner/a.png") is not None


def test_a_thumbnail_fits_and_keeps_its_shape(tmp_path):
    path = tmp_path / "wide.png"
    Image.new("RGB", (800, 200), "red").save(path)
    made = Image.open(io.BytesIO(images.thumbnail(path, size=100, max_pixels=10**6)))
    assert (made.format, made.size) == ("WEBP", (100, 25))


def test_the_limit_of_a_photographs_thumbnail_is_that_of_the_smaller_image(tmp_path):
    path = tmp_path / "photo.jpg"
    Image.new("RGB", (1600, 1200)).save(path)
    made = Image.open(io.BytesIO(images.thumbnail(path, size=100, max_pixels=240_000)))
    assert made.size == (100, 75)


def test_a_small_image_is_not_blown_up(tmp_path):
    path = tmp_path / "small.png"
    Image.new("RGB", (20, 10)).save(path)
    assert Image.open(io.BytesIO(images.thumbnail(path, size=100, max_pixels=10**6))).size == (20, 10)
