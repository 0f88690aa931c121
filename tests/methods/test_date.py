"""DATE: ball divergence against its formula in loops, the guide of both distances, and the loss."""

import numpy as np
import pytest
import torch
from tests.objectives.graphs.slow_guides import distances_of, slow_confidence

from nsh.methods.date import Date, ball_divergence
from nsh.objectives.contrast import ntxent
from nsh.objectives.graphs.guides import consistency

PARAMETERS = {
    "epochs": 2,
    "batch": 8,
    "learning_rate": 1e-3,
    "images": 50,
    "similar": 0.2,
    "contrast": 0.3,
    "temperature": 0.5,
}


def draw_views(images=4, views=5, dim=6, seed=0):
    return np.random.default_rng(seed).normal(size=(images, views, dim)).astype(np.float16)


def slow_divergence(views):
    """As it is printed: mean distances of every view of both images to the views of each."""
    unit = views.astype(float) / np.linalg.norm(views.astype(float), axis=2, keepdims=True)
    count, repeats = len(unit), len(unit[0])
    found = np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            for m in range(repeats):
                for of in (i, j):
                    to_other = sum(1 - unit[of][m] @ unit[j][r] for r in range(repeats)) / repeats
                    to_own = sum(1 - unit[of][m] @ unit[i][r] for r in range(repeats)) / repeats
                    found[i, j] += (to_other - to_own) ** 2 / repeats
    return found


def test_the_divergence_equals_the_loops():
    views = draw_views()
    np.testing.assert_allclose(ball_divergence(views).numpy(), slow_divergence(views), atol=1e-5)


def test_blocks_of_images_do_not_show(monkeypatch):
    views = draw_views(images=7)
    whole = ball_divergence(views)
    monkeypatch.setattr("nsh.methods.date.CHUNK", 3)
    torch.testing.assert_close(ball_divergence(views), whole)


def test_of_a_single_view_it_is_twice_the_squared_distance():
    views = draw_views(views=1)
    expected = 2 * distances_of(views[:, 0].astype(float)) ** 2
    np.testing.assert_allclose(ball_divergence(views).numpy(), expected, atol=1e-5)


def test_the_same_views_in_any_order_do_not_diverge():
    views = draw_views(images=1)[0]
    found = ball_divergence(np.stack([views, views[::-1], draw_views(images=1, seed=1)[0]]))
    assert found[0, 1].item() == pytest.approx(0, abs=1e-6)
    assert found[0, 2] > 0.01
    torch.testing.assert_close(found, found.T)
    torch.testing.assert_close(found.diagonal(), torch.zeros(3))


def test_images_whose_features_are_zero_have_a_finite_divergence():
    views = draw_views()
    views[0] = 0
    assert bool(ball_divergence(views).isfinite().all())


def test_a_guide_is_the_cosine_s_where_the_divergence_agrees(draw_clusters):
    data = draw_clusters(count=30)
    (guides,) = Date(**PARAMETERS).objective(data, bits=6, seed=0).guides
    distances = distances_of(data.features.astype(float))
    divergence = slow_divergence(data.views)
    apart = ~np.eye(30, dtype=bool)
    near, nearer = (np.quantile(values[apart], 0.2) for values in (distances, divergence))
    agreed = 0
    for i in range(30):
        for j in range(30):
            similar = distances[i, j] <= near
            if similar == (divergence[i, j] <= nearer):
                weight = slow_confidence(distances[i, j], distances[apart].tolist(), near)
                assert guides[i, j].item() == pytest.approx(weight if similar else -weight, abs=1e-3)
                agreed += 1
            else:
                assert guides[i, j].item() == 0
    assert 450 < agreed < 900


def test_codes_of_both_views_meet_one_guide(draw_clusters):
    data = draw_clusters(count=40)
    objective = Date(**PARAMETERS).objective(data, bits=6, seed=2)
    rows = torch.tensor([3, 17, 30])
    first, second = (torch.from_numpy(data.views[rows.numpy(), view].astype(np.float32)) for view in (1, 2))
    terms = objective.cached_loss(rows, first, second)
    codes = [objective.head(view).tanh() for view in (first, second)]
    semantic = sum(consistency(one, objective.guides[0][rows][:, rows]) for one in codes)
    torch.testing.assert_close(terms["semantic"], semantic)
    torch.testing.assert_close(terms["contrast"], ntxent(*codes, temperature=0.5))
    torch.testing.assert_close(terms["loss"], semantic + 0.3 * terms["contrast"])
