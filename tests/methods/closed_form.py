"""What the tests of methods without training share."""

from typing import Any

import numpy as np

from nsh.methods import TrainingData


def no_loop(*arguments: Any, **rest: Any) -> None:
    """In the place of a training loop."""
    raise AssertionError("a closed-form method must not train")


def draw_classes(count: int = 120, dim: int = 9, seed: int = 0) -> TrainingData:
    """Features around five centres, which they do not keep apart."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(5, dim))
    return as_data(centres[np.arange(count) % 5] + generator.normal(size=(count, dim)))


def as_data(features: np.ndarray) -> TrainingData:
    """Training images with these features, [n, dim], and two views that are the same."""
    features = features.astype(np.float32)
    return TrainingData(features, np.repeat(features[:, None], 2, axis=1).astype(np.float16))
