"""Spectral hashing against a slow reading of the paper, and against the eigenfunctions it claims to find."""

import math

import numpy as np
import pytest
import torch
from tests.methods.closed_form import as_data, no_loop

from nsh.errors import TrainingError
from nsh.methods import TrainingData
from nsh.methods.sh import Sh, lowest_frequencies


def draw_data(count=90, dim=6, seed=0):
    generator = np.random.default_rng(seed)
    features = (generator.normal(size=(count, dim)) * 0.6 ** np.arange(dim) + 2).astype(np.float32)
    return as_data(features)


def fit(data, bits, seed=0):
    rows = []
    head = Sh().fit(data, bits=bits, seed=seed, report=rows.append, loop=no_loop)
    return head, rows


def slow_sh(features, bits):
    """Section 3 of the paper, a number at a time: PCA, a box, the sines of smallest eigenvalue, their value."""
    unit = [[x / math.hypot(*row) for x in row] for row in features.tolist()]
    count, dim = len(unit), len(unit[0])
    mean = [sum(row[d] for row in unit) / count for d in range(dim)]
    covariance = np.array(
        [[sum((r[a] - mean[a]) * (r[b] - mean[b]) for r in unit) / count for b in range(dim)] for a in range(dim)]
    )
    values, vectors = np.linalg.eigh(covariance)
    directions = []
    for d in sorted(range(dim), key=lambda d: -values[d])[: min(bits, dim)]:
        vector = vectors[:, d]
        directions.append(vector if vector[np.argmax(np.abs(vector))] > 0 else -vector)
    along = [[sum(x * v for x, v in zip(row, vector, strict=True)) for row in unit] for vector in directions]
    epsilon = 0.01  # any will do
    functions = []
    for column in along:
        a, b = min(column), max(column)
        for k in range(1, bits + 1):
            eigenvalue = -math.expm1(-((epsilon * k * math.pi / (b - a)) ** 2) / 2)
            functions.append((eigenvalue, [math.sin(math.pi / 2 + k * math.pi / (b - a) * (x - a)) for x in column]))
    functions.sort(key=lambda pair: pair[0])
    return np.array([values for _, values in functions[:bits]]).T


@pytest.mark.parametrize("bits", [1, 5, 6, 20])
def test_logits_equal_the_slow_reading_of_the_paper(bits):
    data = draw_data()
    head, _ = fit(data, bits)
    found = head(torch.from_numpy(data.features)).detach().numpy()
    np.testing.assert_allclose(found, slow_sh(data.features, bits), atol=1e-4)


def test_on_a_segment_the_bits_are_the_eigenvectors_of_a_similarity_graph():
    """Images spread evenly along a line, similarity exp(-d^2 / 2 epsilon^2): the claim of the paper's section 2.

    The graph cuts at the two ends of the line a little otherwise than its limit does, so a few images near a sign
    change may differ.
    """
    height = np.linspace(-0.5, 0.5, 400)
    features = np.stack([np.ones(400), np.tan(height)], axis=1).astype(np.float32)  # evenly spread in angle
    data = as_data(features)
    codes = fit(data, bits=3)[0](torch.from_numpy(features)).detach().numpy() > 0
    similarity = np.exp(-((height[:, None] - height[None]) ** 2) / (2 * 0.02**2))
    degree = np.diag(similarity.sum(axis=1) ** -0.5)
    _, vectors = np.linalg.eigh(np.eye(400) - degree @ similarity @ degree)
    for bit in range(2):  # the chord is not quite evenly spread; higher modes drift further
        expected = vectors[:, bit + 1] > 0
        agreement = np.mean(codes[:, bit] == expected)
        assert max(agreement, 1 - agreement) > 0.96


def test_frequencies_of_two_directions_are_merged_in_order():
    ranges = torch.tensor([1.0, 0.4, 0.0], dtype=torch.float64)
    frequencies, along = lowest_frequencies(ranges, count=6)
    expected = [1, 2, 2.5, 3, 4, 5]
    np.testing.assert_allclose(frequencies.numpy() / math.pi, expected)
    assert along.tolist() == [0, 0, 1, 0, 0, 0]


def test_equal_frequencies_keep_the_order_of_the_directions():
    _, along = lowest_frequencies(torch.ones(3, dtype=torch.float64), count=5)
    assert along.tolist() == [0, 1, 2, 0, 1]


def test_first_bits_halve_the_box():
    data = draw_data(count=2000)
    logits = fit(data, bits=1)[0](torch.from_numpy(data.features)).detach()
    assert float(logits.min()) == pytest.approx(-1, abs=1e-5)
    assert float(logits.max()) == pytest.approx(1, abs=1e-5)


def test_a_wide_direction_of_little_variance_does_not_take_part_in_few_bits():
    """As in the authors' program: min(bits, dim) directions by variance, whatever a single image does in others."""
    generator = np.random.default_rng(0)
    features = np.full((200, 3), 2.0)
    features[:, 0] += generator.uniform(-0.4, 0.4, size=200)
    features[0, 1] += 2
    features = features.astype(np.float32)
    data = as_data(features)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    components = (unit - unit.mean(axis=0)) @ np.linalg.svd(unit - unit.mean(axis=0))[2].T
    assert np.ptp(components[:, 1]) > np.ptp(components[:, 0]), "or nothing is tested"
    found = fit(data, 1)[0](torch.from_numpy(features)).detach().numpy()
    np.testing.assert_allclose(found, slow_sh(features, 1), atol=1e-4)


def test_more_bits_than_features_are_no_hindrance():
    data = draw_data(dim=3)
    head, [row] = fit(data, bits=40)
    logits = head(torch.from_numpy(data.features))
    assert logits.shape == (90, 40)
    assert bool((logits.abs() <= 1).all())
    assert row["loss"] > 0


def test_images_all_alike_are_refused():
    features = np.ones((20, 4), np.float32)
    with pytest.raises(TrainingError, match="all training images have the same embedding"):
        fit(TrainingData(features, np.ones((20, 2, 4), np.float16)), bits=3)


def test_the_seed_changes_nothing():
    data = draw_data()
    assert torch.equal(fit(data, 5, seed=0)[0].linear.weight, fit(data, 5, seed=1)[0].linear.weight)
