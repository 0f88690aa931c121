"""The interface of all data sets: images with ids, parts and labels.

It knows neither where images come from nor how they are split.
"""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nsh.core.preprocess import load_image
from nsh.errors import DataError
from nsh.system.files import sha256_bytes

Labels = tuple[int, ...]
"""Rows of `ImageSet.classes` that an image belongs to, ascending."""


class ImageSet(Protocol):
    """Images under unique ids, in a fixed order.

    Attributes:
        name: the data set's name in params.yaml.
        classes: names of the classes, or None where nothing is labelled.
        ids: unique, e.g. "train/00012" or a posix path relative to the root.
        parts: for each id the official part, "train", "gallery" (searched, never learned from) or "test", or "" where
            the data set has none.
        labels: for each id its classes, or None where nothing is labelled.
    """

    name: str
    classes: tuple[str, ...] | None
    ids: list[str]
    parts: list[str]
    labels: list[Labels] | None

    def content(self, image_id: str) -> bytes:
        """The image's bytes as published."""
        ...

    def image(self, image_id: str, *, size: int) -> Image.Image:
        """The image, upright 8-bit RGB, decoded as an encoder of inputs of `size` x `size` pixels decodes it.

        Raises:
            UnreadableImage: it cannot be decoded.
        """
        ...

    def inspect(self, image_id: str) -> str:
        """SHA-256 of `content`, after proof that the image decodes.

        Raises:
            UnreadableImage: it does not.
        """
        ...

    def sides(self, image_id: str) -> tuple[int, int]:
        """The shorter and the longer side of the image in pixels, as published.

        Raises:
            UnreadableImage: it is no image.
        """
        ...


class ArrayImages:
    """Decoded images in arrays, one per official part; their content is the raw pixels."""

    def __init__(
        self,
        name: str,
        pixels: Mapping[str, NDArray[np.uint8]],
        labels: Mapping[str, NDArray[np.uint8]],
        *,
        classes: tuple[str, ...],
    ) -> None:
        """Take pixels uint8 [n, H, W] or [n, H, W, 3] and labels [n] of each part.

        Raises:
            DataError: pixels and labels differ in number, or a label is no row of `classes`.
        """
        for part in pixels:
            _check_part(f"{name}/{part}", pixels[part], labels[part], len(classes))
        self.name = name
        self.classes: tuple[str, ...] | None = classes
        self.ids = [f"{part}/{row:05d}" for part in pixels for row in range(len(pixels[part]))]
        self.parts = [part for part in pixels for _ in range(len(pixels[part]))]
        self.labels: list[Labels] | None = [(int(label),) for part in pixels for label in labels[part]]
        self._pixels = pixels

    def content(self, image_id: str) -> bytes:
        """The image's raw pixels, row by row."""
        return self._at(image_id).tobytes()

    def image(self, image_id: str, *, size: int) -> Image.Image:
        """The image in RGB."""
        return load_image(self._at(image_id), size=size)

    def inspect(self, image_id: str) -> str:
        """SHA-256 of the raw pixels; there is nothing left to decode."""
        return sha256_bytes(self.content(image_id))

    def sides(self, image_id: str) -> tuple[int, int]:
        """The shorter and the longer side of the array in pixels."""
        height, width = self._at(image_id).shape[:2]
        return min(height, width), max(height, width)

    def _at(self, image_id: str) -> NDArray[np.uint8]:
        part, _, row = image_id.partition("/")
        try:
            pixels: NDArray[np.uint8] = self._pixels[part][int(row)]
        except (KeyError, ValueError, IndexError) as error:
            raise DataError(f"{self.name} has no image {image_id!r}: run `dvc repro` again from the split") from error
        return pixels


def _check_part(name: str, pixels: NDArray[np.uint8], labels: NDArray[np.uint8], classes: int) -> None:
    if len(pixels) != len(labels):
        raise DataError(f"{name} has {len(pixels)} images and {len(labels)} labels: fetch it again")
    if len(labels) and int(labels.max()) >= classes:
        raise DataError(f"{name} has label {int(labels.max())}, allowed are 0 to {classes - 1}: fetch it again")
