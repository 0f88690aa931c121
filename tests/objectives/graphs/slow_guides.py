"""Distances and confidence of pairs, written as loops; for tests of guides and of the methods that use them."""

import math
from functools import cache

import numpy as np


def unit_rows(features):
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def distances_of(features):
    unit = unit_rows(features)
    distances = np.maximum(1 - unit @ unit.T, 0)
    np.fill_diagonal(distances, 0)
    return distances


def phi(value):
    return (1 + math.erf(value / math.sqrt(2))) / 2


@cache
def slow_shape(apart):
    """The peak of the histogram, and the half normal distributions' widths below and above it."""
    counts = [sum(k / 100 <= d < (k + 1) / 100 for d in apart) for k in range(100)]
    peak = counts.index(max(counts)) / 100
    left, right = [d for d in apart if d <= peak], [d for d in apart if d > peak]
    down, up = (math.sqrt(sum((d - peak) ** 2 for d in side) / len(side)) for side in (left, right))
    return peak, down, up


def slow_confidence(distance, apart, threshold):
    peak, down, up = slow_shape(tuple(apart))
    if distance <= threshold:
        return (phi((threshold - peak) / down) - phi((distance - peak) / down)) / phi((threshold - peak) / down)
    beyond = phi((threshold - peak) / up)
    return (phi((distance - peak) / up) - beyond) / (1 - beyond)
