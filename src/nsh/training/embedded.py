"""What the embed stage wrote, as training data. It does not know how it was made or what is trained on it."""

from pathlib import Path

import numpy as np

from nsh.core.errors import DataError
from nsh.methods.base import TrainingData


def load_training_data(directory: Path) -> TrainingData:
    """Open train.npy, float32 [n, d], and views.npy, float16 [n, V, d], in `directory`; views stay on disk.

    Raises:
        DataError: a file is not there or is no array.
        TrainingError: the arrays do not belong together, or a clean feature is NaN or infinite.
    """
    try:
        features = np.load(directory / "train.npy")
        views = np.load(directory / "views.npy", mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{directory} holds no embedded training images ({error}): run `dvc repro embed`") from error
    return TrainingData(features=features, views=views)
