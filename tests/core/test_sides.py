"""The sides that a file states, whatever is reduced, turned or damaged when it is decoded."""

import io

import pytest
from PIL import Image

from nsh.core.sides import read_sides
from nsh.errors import UnreadableImage


def save(size, kind, **options):
    file = io.BytesIO()
    Image.new("RGB", size).save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_the_shorter_side_comes_first(kind):
    assert read_sides(save((300, 200), kind)) == (200, 300)
    assert read_sides(save((200, 300), kind)) == (200, 300)


def test_damaged_metadata_are_no_matter():
    content = save((60, 40), "PNG")
    chunk = b"\x00\x00\x00\x04iCCP\xff\xff\xff\xff\x00\x00\x00\x00"  # a profile with a wrong checksum
    assert read_sides(content[:33] + chunk + content[33:]) == (40, 60)


def test_what_is_no_image_is_refused():
    with pytest.raises(UnreadableImage, match="not an image in any of the formats"):
        read_sides(b"no image")
