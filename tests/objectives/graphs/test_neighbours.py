"""Neighbours and the neighbours they share, against loops."""

import math

import pytest
import torch

from nsh.objectives.graphs.neighbours import nearest, share_neighbours


def draw(count, dim=3, seed=0):
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def slow_nearest(features, count):
    def cosine(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))

    rows = features.tolist()
    others = [[j for j in range(len(rows)) if j != i] for i in range(len(rows))]
    return [sorted(others[i], key=lambda j, row=row: -cosine(row, rows[j]))[:count] for i, row in enumerate(rows)]


def slow_shared(features, count):
    near = [{i, *row} for i, row in enumerate(slow_nearest(features, count))]
    candidates = slow_nearest(features, min(2 * count, len(features) - 1))
    return [sorted(candidates[i], key=lambda j, own=near[i]: -len(own & near[j]))[:count] for i in range(len(features))]


@pytest.mark.parametrize(("images", "count"), [(30, 1), (30, 6), (9, 8), (2, 1)])
def test_both_equal_the_loops(images, count):
    features = draw(images)
    assert nearest(features, count=count).tolist() == slow_nearest(features, count)
    assert share_neighbours(features, count=count).tolist() == slow_shared(features, count)


def test_an_image_that_lies_between_two_groups_is_nobodys_first_choice():
    left, right = draw(12, seed=1) * 0.1 + torch.tensor([1.0, 0, 0]), draw(12, seed=2) * 0.1 + torch.tensor([0, 1.0, 0])
    features = torch.cat([left, right, torch.tensor([[1.0, 1.0, 0]])])
    found = share_neighbours(features, count=6)
    assert 24 not in found[:24, :3]
    assert bool((found[:12, :6] < 12).all())


def test_more_images_than_are_looked_at_at_once(monkeypatch):
    features = draw(23)
    whole = share_neighbours(features, count=4)
    monkeypatch.setattr("nsh.objectives.graphs.neighbours.CHUNK", 5)
    assert torch.equal(share_neighbours(features, count=4), whole)


@pytest.mark.parametrize("features", [torch.zeros(7, 3), torch.ones(7, 3)])
def test_equal_images_are_neighbours_but_never_of_themselves(features):
    found = share_neighbours(features, count=3)
    assert found.shape == (7, 3)
    assert all(i not in row and len(set(row)) == 3 for i, row in enumerate(found.tolist()))
