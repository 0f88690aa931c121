import numpy as np
import pytest

from nsh.data.imageset import ArrayImages
from nsh.errors import DataError

PIXELS = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4)


def build(labels: list[int]) -> ArrayImages:
    return ArrayImages("tiny", {"train": PIXELS}, {"train": np.array(labels, dtype=np.uint8)}, classes=("a", "b"))


def test_grey_arrays_become_rgb_images() -> None:
    images = build([0, 1])
    np.testing.assert_array_equal(np.asarray(images.image("train/00001", size=4)), np.dstack([PIXELS[1]] * 3))
    assert images.content("train/00001") == bytes(range(16, 32))


@pytest.mark.parametrize(
    ("labels", "message"), [([0], "2 images and 1 labels"), ([0, 2], "label 2, allowed are 0 to 1")]
)
def test_labels_must_fit(labels: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build(labels)


@pytest.mark.parametrize("image_id", ["train/00002", "test/00000", "train", "train/x", ""])
def test_an_unknown_image_is_named(image_id: str) -> None:
    with pytest.raises(DataError, match=f"has no image '{image_id}'"):
        build([0, 1]).image(image_id, size=4)
