"""CIMON: clusters and guides against loops; the loss; where nothing can be told."""

import numpy as np
import pytest
import torch
from tests.objectives.graphs.slow_guides import distances_of, slow_confidence, unit_rows

from nsh.errors import TrainingError
from nsh.methods.cimon import Cimon, cluster, guide, spectral_vectors
from nsh.objectives.contrast import ntxent
from nsh.objectives.graphs.guides import consistency

PARAMETERS = {
    "epochs": 2,
    "batch": 8,
    "learning_rate": 1e-3,
    "images": 50,
    "similar": 0.2,
    "clusters": 5,
    "contrast": 0.3,
    "temperature": 0.5,
}


@pytest.mark.parametrize("seed", [0, 1])
def test_spectral_vectors_span_what_the_leading_eigenvectors_span(seed):
    """Compared by the angles between images, which no basis of the span changes."""
    generator = np.random.default_rng(seed)
    features = np.eye(4)[np.arange(40) % 4] * 3 + generator.normal(size=(40, 4)) * 0.3
    distances = distances_of(features)
    squared = [[((a - b) ** 2).sum() for b in unit_rows(features)] for a in unit_rows(features)]
    affinity = np.exp(-np.array(squared))
    degree = affinity.sum(axis=1)
    leading = np.linalg.eigh(affinity / np.sqrt(np.outer(degree, degree)))[1][:, -4:]
    expected = unit_rows(leading) @ unit_rows(leading).T
    vectors = spectral_vectors(torch.from_numpy(distances).float(), count=4, seed=seed).numpy()
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=1e-3)


def test_clusters_are_those_that_are_plain_to_see():
    generator = np.random.default_rng(0)
    groups = np.arange(60) % 3
    features = np.eye(3)[groups] * 10 + generator.normal(size=(60, 3)) * 0.2
    members = cluster(torch.from_numpy(distances_of(features)).float(), count=3, seed=0).numpy()
    assert all((members[i] == members[j]) == (groups[i] == groups[j]) for i in range(60) for j in range(60))


def test_a_guide_is_the_target_times_the_confidence_where_clusters_agree(draw_clusters):
    features = draw_clusters(count=30).features
    guides = guide(torch.from_numpy(features), similar=0.2, clusters=5, seed=1)
    distances = distances_of(features.astype(float))
    apart = distances[~np.eye(30, dtype=bool)]
    threshold = float(np.quantile(apart, 0.2))
    members = cluster(torch.from_numpy(distances).float(), count=5, seed=1).tolist()
    for i in range(30):
        for j in range(30):
            similar = distances[i, j] <= threshold
            weight = slow_confidence(distances[i, j], apart.tolist(), threshold)
            weight *= similar == (members[i] == members[j])
            assert guides[i, j].item() == pytest.approx(weight if similar else -weight, abs=1e-3)


def test_codes_of_both_views_meet_the_targets_of_both_views(draw_clusters):
    data = draw_clusters(count=40)
    objective = Cimon(**PARAMETERS).objective(data, bits=6, seed=2)
    rows = torch.tensor([3, 17, 30])
    first, second = (torch.from_numpy(data.views[rows.numpy(), view].astype(np.float32)) for view in (1, 2))
    terms = objective.cached_loss(rows, first, second)
    views = (torch.from_numpy(data.views[:, view].astype(np.float32)) for view in (0, 2))
    guides = [guide(view, similar=0.2, clusters=5, seed=2)[rows][:, rows] for view in views]
    codes = [objective.head(view).tanh() for view in (first, second)]
    semantic = sum(consistency(one, by) for one in codes for by in guides)
    torch.testing.assert_close(terms["semantic"], semantic)
    torch.testing.assert_close(terms["contrast"], ntxent(*codes, temperature=0.5))
    torch.testing.assert_close(terms["loss"], semantic + 0.3 * terms["contrast"])


def test_fewer_images_than_clusters_is_said_clearly(draw_clusters):
    with pytest.raises(TrainingError, match="found 4 training images for 5 clusters"):
        Cimon(**PARAMETERS).objective(draw_clusters(count=4), bits=6, seed=0)


@pytest.mark.parametrize("features", [torch.ones(20, 4), torch.eye(2, 4).repeat(10, 1)])
def test_images_that_are_all_alike_give_finite_guides_or_a_clear_sentence(features):
    try:
        guides = guide(features, similar=0.1, clusters=3, seed=0)
    except TrainingError as error:
        assert "different training images for 3 clusters: lower clusters" in str(error)  # noqa: PT017
    else:
        assert bool(guides.isfinite().all())


def test_too_few_different_images_are_said_in_the_methods_own_words(monkeypatch):
    monkeypatch.setattr(
        "nsh.methods.cimon.spectral_vectors", lambda distances, **_: torch.eye(2).repeat(10, 1).double()
    )
    with pytest.raises(TrainingError, match="fewer than 3 different training images for 3 clusters: lower clusters"):
        cluster(torch.zeros(20, 20), count=3, seed=0)
