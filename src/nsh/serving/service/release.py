"""An opened release: an encoder, the index of its codes, and what encodes for it. Knows nothing of HTTP."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nsh.serving.encoder import Encoder
from nsh.serving.service.batching import Batcher
from nsh.serving.service.drift import DriftMonitor
from nsh.serving.service.images import ImageEncoder
from nsh.serving.service.library import Library
from nsh.serving.service.metrics import Metrics
from nsh.serving.service.settings import Settings


@dataclass(frozen=True)
class OpenRelease:
    """All that an answer is made of, so that no answer has parts of two encoders.

    It is closed when nobody refers to it any more.
    """

    encoder: Encoder
    library: Library
    batcher: Batcher
    drift: DriftMonitor  # a collector of the metrics' registry


def open_release(model: Path, index: str | Path, *, settings: Settings, metrics: Metrics) -> OpenRelease:
    """Open an encoder and its index, and run the encoder once.

    Raises:
        CodesError: one of them cannot be opened, or they do not belong together.
        ConfigError: the device is not available.
    """
    encoder = Encoder(model, threads=1, device=settings.device, max_pixels=settings.max_pixels)
    library = Library(index, encoder, metrics)
    size = encoder.contract.image_size
    encoder.run(np.zeros((1, size, size, 3), np.uint8))  # the first run is slow, so no client waits for it
    # one worker more than cores: another one uses the core while a worker waits for its results to be passed on
    encode = ImageEncoder(encoder, bits=library.bits, metrics=metrics)
    batcher = Batcher(encode, workers=settings.threads + 1, batch=settings.batch)
    drift = DriftMonitor(encoder.reference if library.bits == encoder.contract.bits else None, metrics)
    return OpenRelease(encoder, library, batcher, drift)
