"""Levels of decoded images, and what is expected of them."""

import io

import numpy as np
from PIL import Image

from nsh.core.preprocess import load_image


def scaled(samples: np.ndarray, bits: int) -> np.ndarray:
    """8-bit levels, as real numbers."""
    return samples * 255 / (2**bits - 1)


def grey(levels: np.ndarray) -> np.ndarray:
    return np.repeat(levels[..., :1], 3, axis=2)


def over_white(colour: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Colours and alpha in 0..255."""
    return colour * alpha / 255 + 255 - alpha


def check(content: bytes, expected: np.ndarray, within: float = 1) -> None:
    """As bytes and as an image that Pillow has opened: levels may differ by their rounding."""
    for source in (content, Image.open(io.BytesIO(content))):
        found = np.asarray(load_image(source)).astype(float)
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= within
