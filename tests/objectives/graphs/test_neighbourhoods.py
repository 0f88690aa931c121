"""Similar images by the overlap of their neighbourhoods, against loops."""

import math

import pytest
import torch

from nsh.objectives.graphs.neighbourhoods import similar_images


def draw(count, dim=4, seed=0):
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def slow_around(features, near):
    def cosine(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))

    rows = features.tolist()
    return [
        {i, *sorted((j for j in range(len(rows)) if j != i), key=lambda j, row=row: -cosine(row, rows[j]))[:near]}
        for i, row in enumerate(rows)
    ]


def slow_similar(features, near, alike):
    around, images = slow_around(features, near), range(len(features))
    found = [[False] * len(features) for _ in images]
    for i in images:
        chosen = sorted(images, key=lambda j: (-len(around[i] & around[j]), j))[:alike]
        for k in {k for j in chosen for k in around[j]} | {i}:
            found[i][k] = found[k][i] = True
    return found


@pytest.mark.parametrize(("images", "near", "alike"), [(30, 4, 3), (30, 3, 30), (12, 40, 2), (1, 3, 3), (2, 1, 5)])
def test_it_equals_the_loops(images, near, alike):
    features = draw(images)
    assert similar_images(features, near=near, alike=alike).tolist() == slow_similar(features, near, alike)


def test_alone_an_image_brings_its_nearest_and_those_it_is_nearest_to():
    features = draw(25)
    nearest = torch.tensor([[k in around for k in range(25)] for around in slow_around(features, 3)])
    assert torch.equal(similar_images(features, near=3, alike=1), nearest | nearest.T)


def test_more_images_than_are_looked_at_at_once(monkeypatch):
    features = draw(23)
    whole = similar_images(features, near=4, alike=3)
    monkeypatch.setattr("nsh.objectives.graphs.neighbourhoods.CHUNK", 5)
    assert torch.equal(similar_images(features, near=4, alike=3), whole)


@pytest.mark.parametrize("features", [torch.zeros(7, 3), torch.ones(7, 3), torch.eye(7)])
def test_equal_images_are_similar_to_themselves_and_symmetrically(features):
    similar = similar_images(features, near=2, alike=2)
    assert bool(similar.diagonal().all())
    assert torch.equal(similar, similar.T)
