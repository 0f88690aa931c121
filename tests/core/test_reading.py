"""An image that the split has found readable is read, or it is said what to do."""

import numpy as np
import pytest
from PIL import Image

from nsh.core.preprocess import to_input
from nsh.core.reading import read_image, read_inputs
from nsh.errors import DataError, UnreadableImage


def test_what_the_data_set_gives_is_handed_on():
    image = Image.new("RGB", (2, 3))
    assert read_image({"a": image}.__getitem__, "a") is image


def test_an_image_that_cannot_be_read_any_more_is_named_with_the_reason_and_what_to_do():
    def load(name):
        raise UnreadableImage("the file is empty")

    with pytest.raises(DataError, match=r"'a' was readable .* not now \(the file is empty\): restore it, or draw"):
        read_image(load, "a")


def test_inputs_are_what_an_encoder_takes_in_the_order_asked_for():
    images = {name: Image.new("RGB", (8, 6), (shade, 0, 0)) for name, shade in (("a", 10), ("b", 200))}
    found = read_inputs(images.__getitem__, ["b", "a"], size=4, resample="bilinear")
    assert (found.dtype, found.shape) == (np.uint8, (2, 4, 4, 3))
    for pixels, name in zip(found, "ba", strict=True):
        assert np.array_equal(pixels, to_input(images[name], size=4, resample="bilinear"))
