"""The golden images, and how they were made."""

import importlib.util
import io
from pathlib import Path

from PIL import Image

GOLDEN = Path(__file__).parents[1] / "golden"
IMAGES = sorted((GOLDEN / "images").iterdir())
LOSSY = 2  # levels two builds of a JPEG decoder may differ by


def script():
    spec = importlib.util.spec_from_file_location("make_images", GOLDEN / "make_images.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = script()


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
