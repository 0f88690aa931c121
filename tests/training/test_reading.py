"""An image that the split has found readable is read, or it is said what to do."""

import pytest
from PIL import Image

from nsh.errors import DataError, UnreadableImage
from nsh.training.reading import read_image


def test_what_the_data_set_gives_is_handed_on():
    image = Image.new("RGB", (2, 3))
    assert read_image({"a": image}.__getitem__, "a") is image


def test_an_image_that_cannot_be_read_any_more_is_named_with_the_reason_and_what_to_do():
    def load(name):
        raise UnreadableImage("the file is empty")

    with pytest.raises(DataError, match=r"'a' was readable .* not now \(the file is empty\): restore it, or draw"):
        read_image(load, "a")
