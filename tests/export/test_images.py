"""Which of a split's images an encoder is proved and judged on."""

import numpy as np
import pytest
from PIL import Image

from nsh.data.split import SplitPart
from nsh.export import parity
from nsh.export.images import SplitImages

PARTS = {"train": 4, "query": 2, "gallery": 3}


def load(name: str) -> Image.Image:
    """An image whose red tells the part and the row."""
    part, row = name.split("/")
    return Image.new("RGB", (8, 8), (10 * list(PARTS).index(part) + int(row), 0, 0))


def shades(images: np.ndarray) -> list[int]:
    return images[:, 0, 0, 0].tolist()


@pytest.fixture
def images() -> SplitImages:
    parts = {
        part: SplitPart(
            ids=[f"{part}/{row}" for row in range(count)],
            labels=None if part == "train" else np.eye(count, dtype=bool),
            sha256=["0" * 64] * count,
        )
        for part, count in PARTS.items()
    }
    return SplitImages(load=load, size=4, resample="bilinear", parts=parts)


def test_fewer_images_than_the_gate_wants_are_all_of_them_and_the_gallery_comes_first(images, monkeypatch):
    found = images.read_gate()
    assert (found.dtype, found.shape) == (np.uint8, (5, 4, 4, 3))
    assert shades(found) == [20, 21, 22, 10, 11]
    monkeypatch.setattr(parity, "IMAGES", 4)
    assert shades(images.read_gate()) == [20, 21, 22, 10]


def test_a_sample_is_the_first_images_with_their_labels(images):
    sample = images.sample("gallery", 2)
    assert shades(sample.images) == [20, 21]
    assert np.array_equal(sample.labels, np.eye(3, dtype=bool)[:2])
    assert len(images.sample("query", 100).images) == 2
    assert images.sample("train", 1).labels is None
