"""Codes, logits and thumbnails of image files, within a limit on pixels. Knows nothing of HTTP."""

import io
import time
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from nsh.core.preprocess import load_image
from nsh.errors import UnreadableImage
from nsh.serving.encoder import Encoder
from nsh.serving.service.batching import Outcome
from nsh.serving.service.metrics import Metrics


class ImageEncoder:
    """Encodes batches of image files and counts them."""

    def __init__(self, encoder: Encoder, *, bits: int, metrics: Metrics) -> None:
        """Give the first `bits` bits of each code, and their logits."""
        self._encoder, self._bits = encoder, bits
        self._metrics = metrics

    def __call__(self, images: Sequence[bytes]) -> list[Outcome]:
        """The encoder's outputs or the error of each image."""
        start = time.perf_counter()
        outcomes = self._encoder.run_batch(images)
        unreadable = sum(isinstance(outcome, UnreadableImage) for outcome in outcomes)
        self._metrics.batches.observe(len(images))
        self._metrics.inference.observe(time.perf_counter() - start)
        self._metrics.images.labels("encoded").inc(len(images) - unreadable)
        self._metrics.images.labels("unreadable").inc(unreadable)
        return [outcome if isinstance(outcome, UnreadableImage) else outcome.first(self._bits) for outcome in outcomes]


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
