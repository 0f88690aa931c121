"""ITQ against a slow reading of the paper, and its properties."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.methods.closed_form import as_data, no_loop

from nsh.errors import TrainingError
from nsh.methods.itq import Itq
from nsh.objectives.closed_forms.rotation import random_rotation


def draw_data(count=60, dim=10, seed=0):
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(4, dim)) * 3
    features = centres[np.arange(count) % 4] + generator.normal(size=(count, dim)) + 2
    return as_data(features)


def fit(data, bits=6, iterations=10, seed=0):
    rows = []
    head = Itq(iterations=iterations).fit(data, bits=bits, seed=seed, report=rows.append, loop=no_loop)
    return head, rows


def slow_itq(features, bits, rotation, iterations):
    """Section 3 of the paper: centre, PCA, then B := sgn(VR) and R := S_hat S^T of svd(B^T V) = S Omega S_hat^T."""
    features = [[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in features.tolist()]
    count, dim = len(features), len(features[0])
    mean = [sum(row[d] for row in features) / count for d in range(dim)]
    centred = np.array([[row[d] - mean[d] for d in range(dim)] for row in features])
    covariance = sum(np.outer(row, row) for row in centred)
    values, vectors = np.linalg.eigh(covariance)
    order = sorted(range(dim), key=lambda d: -values[d])[:bits]
    directions = []
    for d in order:
        vector = vectors[:, d]
        directions.append(vector if vector[np.argmax(np.abs(vector))] > 0 else -vector)
    directions = np.stack(directions, axis=1)
    for _ in range(iterations):
        turned = [[sum(v[a] * rotation[a][b] for a in range(bits)) for b in range(bits)] for v in centred @ directions]
        code = [[1.0 if value > 0 else -1.0 for value in row] for row in turned]
        correlation = np.zeros((bits, bits))
        for row, vector in zip(code, centred @ directions, strict=True):
            correlation += np.outer(row, vector)
        left, _, right_transposed = np.linalg.svd(correlation)
        rotation = (right_transposed.T @ left.T).tolist()
    return (centred @ directions) @ np.array(rotation)


def test_logits_equal_the_slow_reading_of_the_paper():
    data = draw_data()
    head, _ = fit(data, bits=6, iterations=7, seed=3)
    expected = slow_itq(data.features.astype(float), 6, random_rotation(6, seed=3).tolist(), 7)
    np.testing.assert_allclose(head(torch.from_numpy(data.features)).detach().numpy(), expected, atol=1e-5)


def test_quantisation_error_never_rises_and_is_reported_once_an_iteration():
    _, rows = fit(draw_data(count=200, dim=16), bits=12, iterations=30)
    assert [row["epoch"] for row in rows] == list(range(1, 31))
    losses = [row["loss"] for row in rows]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(losses))
    assert losses[-1] < losses[0]


def test_a_query_is_centred_by_the_mean_of_the_training_images():
    data = draw_data()
    head, _ = fit(data)
    alone = head(torch.from_numpy(data.features[:1]))
    together = head(torch.from_numpy(data.features))[:1]
    torch.testing.assert_close(alone, together)
    torch.testing.assert_close(head(torch.from_numpy(data.features)).mean(0), torch.zeros(6), atol=1e-5, rtol=0)


def test_same_seed_same_head_other_seed_other_head():
    data = draw_data()
    weights = [fit(data, seed=seed)[0].linear.weight for seed in (5, 5, 6)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.allclose(weights[0], weights[2])


def test_as_many_bits_as_features_is_the_most():
    data = draw_data(dim=10)
    head, _ = fit(data, bits=10)
    assert head(torch.from_numpy(data.features)).shape == (60, 10)
    with pytest.raises(TrainingError, match="11 bits asked for, 10 features found"):
        fit(data, bits=11)


def test_fewer_images_than_bits_still_gives_a_finite_head():
    head, rows = fit(draw_data(count=3, dim=10), bits=8)
    assert bool(head.linear.weight.isfinite().all())
    assert all(math.isfinite(row["loss"]) for row in rows)
