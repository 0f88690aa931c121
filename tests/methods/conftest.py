"""Small data for the tests of methods."""

from collections.abc import Callable

import numpy as np
import pytest

from nsh.methods import TrainingData


@pytest.fixture(scope="session")
def draw_clusters() -> Callable[..., TrainingData]:
    """Features around five centres, as a rectified network has them, and three noisy views of each."""

    def draw(count: int = 60, dim: int = 12, seed: int = 0) -> TrainingData:
        generator = np.random.default_rng(seed)
        centres = 2 * generator.normal(size=(5, dim))
        features = np.abs(centres[np.arange(count) % 5] + generator.normal(size=(count, dim)))
        views = features[:, None] + 0.2 * generator.normal(size=(count, 3, dim))
        return TrainingData(features.astype(np.float32), views.astype(np.float16))

    return draw
