"""DVB: each term against loops or a closed form, the bound's two networks, pseudo-centres, and the head."""

import math

import numpy as np
import pytest
import torch

from nsh.errors import TrainingError
from nsh.methods.dvb import Dvb, adjacency, correlation, disagreement, divergence, draw_normal, find_centres
from nsh.objectives.noise import Noise

PARAMETERS = {
    "epochs": 2,
    "batch": 8,
    "learning_rate": 1e-3,
    "hidden": 16,
    "latent": 5,
    "centres": 4,
    "quantisation": 0.8,
    "independence": 0.5,
    "adjacency": 0.25,
    "attraction": 2.0,
}


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_divergence(one, other):
    """KL of normal distributions, entry by entry."""
    found = []
    for m, v, n, w in zip(*(part.flatten().tolist() for part in (*one, *other)), strict=True):
        squares = math.exp(v) + (m - n) ** 2
        found.append(math.log(math.exp(w / 2) / math.exp(v / 2)) + squares / (2 * math.exp(w)) - 0.5)
    return sum(found) / len(found)


def test_divergence_equals_the_loop_and_is_not_symmetric():
    one, other = (draw(4, 3, seed=0), draw(4, 3, seed=1)), (draw(4, 3, seed=2), draw(4, 3, seed=3))
    assert divergence(one, other).item() == pytest.approx(slow_divergence(one, other))
    assert divergence(other, one).item() == pytest.approx(slow_divergence(other, one))
    assert divergence(one, other).item() != pytest.approx(divergence(other, one).item())
    assert divergence(one, one).item() == 0


def test_divergence_of_unit_variances_is_half_the_squared_distance():
    one, other, spread = draw(4, 3), draw(4, 3, seed=1), torch.zeros(4, 3, dtype=torch.float64)
    expected = (one - other).square().mean() / 2
    torch.testing.assert_close(divergence((one, spread), (other, spread)), expected)


def test_balanced_independent_bits_are_not_correlated_and_equal_ones_wholly():
    hadamard = torch.tensor([[1.0, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])
    assert correlation(hadamard).item() == 0
    assert correlation(torch.ones(5, 3)).item() == pytest.approx(6 / 9)  # all but the diagonal is 1 instead of 0


def slow_adjacency(features, neighbours):
    count = len(features)
    unit = [row / np.linalg.norm(row) for row in features]
    near = []
    for i in range(count):
        others = [j for j in range(count) if j != i]
        near.append(sorted(others, key=lambda j, i=i: -unit[i] @ unit[j])[:neighbours])
    edges = np.array([[float(j in near[i] or i in near[j]) for j in range(count)] for i in range(count)])
    degree = edges.sum(axis=1)
    return np.array([[edges[i, j] / math.sqrt(degree[i] * degree[j]) for j in range(count)] for i in range(count)])


@pytest.mark.parametrize(("count", "neighbours"), [(9, 2), (3, 9)])
def test_adjacency_equals_the_loops(count, neighbours):
    features = draw(count, 4)
    expected = slow_adjacency(features.numpy(), neighbours)
    np.testing.assert_allclose(adjacency(features, neighbours=neighbours).numpy(), expected, atol=1e-6)


def test_two_neighbours_with_equal_latents_agree_wholly():
    edges = adjacency(draw(2, 4), neighbours=9)
    assert disagreement(torch.ones(2, 3, dtype=torch.float64), edges).item() == pytest.approx(-1)  # -2 of 2 images
    opposite = torch.tensor([[1.0, 0], [-1, 0]], dtype=torch.float64)
    assert disagreement(opposite, edges).item() == pytest.approx(1)


def test_draws_have_the_mean_and_the_variance_that_are_asked_for():
    """5,000 draws of each: the standard errors are .0007 and .001 for a deviation of .05, .014 and .02 for one of 1."""
    centre = torch.tensor([[0.2, 0.9]]).repeat(5000, 1)
    spread = torch.tensor([[0.05, 1.0]]).square().log().repeat(5000, 1)
    drawn = draw_normal(centre, spread, noise=Noise(seed=0))
    np.testing.assert_allclose(drawn.mean(dim=0), [0.2, 0.9], atol=0.08)
    np.testing.assert_allclose(drawn.std(dim=0), [0.05, 1.0], rtol=0.08)
    assert abs(drawn[:, 0].mean().item() - 0.2) < 0.005


def test_no_draw_is_infinite(monkeypatch):
    noise = Noise(seed=0)
    monkeypatch.setattr(noise, "uniform", lambda *shape, device: torch.zeros(shape))
    assert bool(draw_normal(torch.zeros(2, 3), torch.zeros(2, 3), noise=noise).isfinite().all())


def test_an_image_is_drawn_to_the_centre_of_its_cluster(draw_clusters):
    features = draw_clusters(count=40)
    centres = find_centres(torch.from_numpy(features.features), count=5, length=12, seed=1)
    assert centres.shape == (40, 12)
    assert (centres.min().item(), centres.max().item()) == (0, 1)
    assert len(centres.unique(dim=0)) == 5
    images = torch.from_numpy(features.features)
    members = [int((centres.unique(dim=0) == row).all(dim=1).nonzero()) for row in centres]
    means = torch.stack([images[[i for i in range(40) if members[i] == c]].mean(dim=0) for c in range(5)])
    nearest = (images[:, None] - means).square().sum(dim=2).argmin(dim=1)
    assert nearest.tolist() == members  # as k-means ends


def test_a_centre_that_is_longer_than_a_feature_is_filled_up(draw_clusters):
    centres = find_centres(torch.from_numpy(draw_clusters().features), count=4, length=20, seed=0)
    assert torch.equal(centres[:, 12:], torch.full((60, 8), 0.5))


def test_too_few_different_images_are_said_in_the_methods_own_words():
    with pytest.raises(TrainingError, match="fewer than 3 different training images for 3 centres: lower centres"):
        find_centres(torch.eye(2, 4).repeat(10, 1), count=3, length=2, seed=0)


def test_the_loss_is_the_weighted_bound_and_hashing_terms(draw_clusters):
    data = draw_clusters()
    objective = Dvb(**PARAMETERS).objective(data, bits=6, seed=0)
    rows, views = torch.arange(8), torch.full((8, 12), torch.nan)
    terms = objective.cached_loss(rows, views, views)
    features = torch.from_numpy(data.features[:8])
    seen = objective.head.standardise(features)
    prior = objective.infer_prior(seen)
    latents = draw_normal(*prior, noise=Noise(seed=0))
    codes = objective.head.decode(seen, latents).tanh()
    torch.testing.assert_close(terms["quantisation"], (1 - codes.abs()).square().mean())
    torch.testing.assert_close(terms["divergence"], divergence(objective.infer_posterior(seen, codes), prior))
    torch.testing.assert_close(terms["independence"], correlation(codes))
    torch.testing.assert_close(terms["adjacency"], disagreement(latents, adjacency(features, neighbours=9)))
    torch.testing.assert_close(terms["attraction"], (latents - objective.centres[:8]).square().mean())
    weights = {"quantisation": 0.8, "divergence": 1, "independence": 0.5, "adjacency": 0.25, "attraction": 2}
    torch.testing.assert_close(terms["loss"], sum(weight * terms[name] for name, weight in weights.items()))


def test_the_bound_trains_prior_posterior_and_decoder(draw_clusters):
    objective = Dvb(**PARAMETERS).objective(draw_clusters(), bits=6, seed=0)
    terms = objective.cached_loss(torch.arange(8), *(torch.zeros(8, 12),) * 2)
    (terms["quantisation"] + terms["divergence"]).backward()
    moved = {name for name, parameter in objective.named_parameters() if float(parameter.grad.abs().sum()) > 1e-6}
    assert {name for name, _ in objective.named_parameters()} - moved <= {"head.linear.bias"}  # normalised away


def test_in_service_the_latent_is_the_prior_s_mean(draw_clusters):
    data = draw_clusters()
    head = Dvb(**PARAMETERS).objective(data, bits=6, seed=0).head.eval()
    features = torch.from_numpy(data.features)
    seen = head.standardise(features)
    torch.testing.assert_close(head(features), head.decode(seen, head.centre(head.prior(seen)).sigmoid()))
    assert torch.equal(head(features), head(features))


def test_variances_stay_in_their_limits_whatever_the_features(draw_clusters):
    objective = Dvb(**PARAMETERS).objective(draw_clusters(), bits=6, seed=0)
    centre, spread = objective.infer_prior(torch.full((2, 12), 1e6))
    assert bool(((centre >= 0) & (centre <= 1) & (spread >= -8) & (spread <= 0)).all())
