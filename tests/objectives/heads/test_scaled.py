"""A head with one scale for all features."""

import numpy as np
import torch
from tests.methods.closed_form import as_data

from nsh.objectives.heads.scaled import ScaledHead


def fit(features):
    head = ScaledHead(features.shape[1], 4)
    head.fit_inputs(as_data(features))
    return head


def test_features_keep_their_proportions_and_have_a_mean_variance_of_one():
    features = np.random.default_rng(0).normal(size=(50, 3)) * [1, 2, 30] + [5, -3, 100]
    head = fit(features)
    seen = head.standardise(torch.from_numpy(features.astype(np.float32))).numpy()
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(seen.var(axis=0).mean(), 1, rtol=1e-5)
    np.testing.assert_allclose(
        seen.std(axis=0) / seen.std(axis=0)[0], features.std(axis=0) / features.std(axis=0)[0], rtol=1e-4
    )


def test_images_that_are_all_alike_are_not_scaled():
    head = fit(np.full((5, 3), 7.0))
    assert head.scale.tolist() == [1, 1, 1]
    assert head.standardise(torch.full((1, 3), 7.0)).tolist() == [[0, 0, 0]]
