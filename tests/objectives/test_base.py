"""The data that methods are fed."""

import numpy as np
import pytest

from nsh.errors import TrainingError
from nsh.objectives.base import TrainingData


@pytest.mark.parametrize(
    ("features", "views"),
    [((4, 3), (4, 2, 5)), ((4, 3), (5, 2, 3)), ((4,), (4, 2, 3)), ((4, 3), (4, 3))],
)
def test_features_and_views_must_belong_together(features, views):
    with pytest.raises(TrainingError, match="do not belong together"):
        TrainingData(np.zeros(features, np.float32), np.zeros(views, np.float16))


@pytest.mark.parametrize("rows", [np.arange(3), np.zeros((4, 1), np.int64)])
def test_every_image_has_one_row(rows):
    with pytest.raises(TrainingError, match=r"features \(4, 3\) and rows \(.*\) do not belong together"):
        TrainingData(np.zeros((4, 3), np.float32), np.zeros((4, 2, 3), np.float16), rows)


def test_images_that_are_taken_know_where_they_stood_among_all():
    features = np.arange(10, dtype=np.float32)[:, None]
    data = TrainingData(features, features[:, None].astype(np.float16))
    assert data.rows is None
    some = data.take(np.array([8, 3, 5, 1]))
    fewer = some.take(np.array([1, 3]))
    assert (some.rows.tolist(), fewer.rows.tolist()) == ([8, 3, 5, 1], [3, 1])
    assert fewer.features.ravel().tolist() == fewer.views.ravel().tolist() == [3, 1]


def test_features_that_are_not_finite_are_counted_and_located():
    features = np.zeros((5, 3), np.float32)
    features[2, 1] = np.nan
    features[4] = np.inf
    with pytest.raises(TrainingError, match="2 training images are NaN or infinite, the first in row 2"):
        TrainingData(features, np.zeros((5, 2, 3), np.float16))
