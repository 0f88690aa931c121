"""Codes, logits and thumbnails of image files, within a limit on pixels. Knows nothing of HTTP."""

import io
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nsh.core.preprocess import load_image, load_input
from nsh.errors import UnreadableImage
from nsh.serving.encoder import Encoder
from nsh.serving.service.batching import Outcome
from nsh.serving.service.metrics import Metrics


class ImageEncoder:
    """Encodes batches of image files and counts them."""

    def __init__(self, encoder: Encoder, *, max_pixels: int, metrics: Metrics) -> None:
        self._encoder = encoder
        self._max_pixels = max_pixels
        self._metrics = metrics

    def __call__(self, images: Sequence[bytes]) -> list[Outcome]:
        """The encoder's outputs or the error of each image."""
        start = time.perf_counter()
        prepared = [self._prepare(content) for content in images]
        readable = [pixels for pixels in prepared if not isinstance(pixels, UnreadableImage)]
        outputs = iter(self._encoder.run(np.stack(readable)).each() if readable else ())
        self._metrics.batches.observe(len(images))
        self._metrics.inference.observe(time.perf_counter() - start)
        self._metrics.images.labels("encoded").inc(len(readable))
        self._metrics.images.labels("unreadable").inc(len(images) - len(readable))
        return [pixels if isinstance(pixels, UnreadableImage) else next(outputs) for pixels in prepared]

    def _prepare(self, content: bytes) -> NDArray[np.uint8] | UnreadableImage:
        size, resample = self._encoder.contract.image_size, self._encoder.contract.resample
        try:
            return load_input(content, size=size, resample=resample, max_pixels=self._max_pixels)
        except UnreadableImage as error:
            return error


def resolve_inside(root: Path, name: str) -> Path | None:
    """The regular file `name` below `root`, or None.

    Links are resolved before the check, so neither `..` nor a link leads outside `root`.
    """
    try:
        path = (root / name).resolve(strict=True)
        if path.is_relative_to(root.resolve(strict=True)) and path.is_file():
            return path
    except (OSError, ValueError, RuntimeError):  # missing, too long, with a NUL, or a cycle of links
        pass
    return None


def thumbnail(path: Path, *, size: int, max_pixels: int) -> bytes:
    """The image at `path`, as a WebP that fits into `size` x `size` pixels.

    Raises:
        UnreadableImage: it has more than `max_pixels` pixels, or cannot be decoded.
    """
    image = load_image(path, size=size, max_pixels=max_pixels)
    image.thumbnail((size, size), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    image.save(content, "WEBP", quality=82, method=2)
    return content.getvalue()
