"""DistillHash: noisy labels, bounds and distilled pairs against loops, the certain label is the right one, the loss."""

import math

import numpy as np
import pytest
import torch

from nsh.errors import TrainingError
from nsh.methods.distillhash import DistillHash, distil, find_least, surprise
from nsh.objectives.graphs.guides import cosine_distances

PARAMETERS = {"epochs": 2, "batch": 8, "learning_rate": 1e-2, "images": 60, "similar": 0.1}
PARAMETERS |= {"neighbours": 3, "warm_up": 3}


def draw_chances(count=8, seed=0):
    codes = torch.rand(count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1
    return (2 * codes @ codes.T).sigmoid()


def draw_distances(count=8, seed=1):
    return cosine_distances(torch.randn(count, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def slow_distil(chances, distances, neighbours):
    """Pair by pair, every pair of the neighbours of both images."""
    count = len(chances)
    ranks = [sorted(range(count), key=lambda j, i=i: (j != i, distances[i, j].item())) for i in range(count)]
    kept = np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            far = [chances[a, b].item() for a in ranks[i][2 : neighbours + 2] for b in ranks[j][2 : neighbours + 2]]
            near = [1 - chances[a, b].item() for a in ranks[i][:neighbours] for b in ranks[j][:neighbours]]
            if i != j and chances[i, j] > (1 + min(far)) / 2:
                kept[i, j] = 1
            if i != j and chances[i, j] < (1 - min(near)) / 2:
                kept[i, j] = -1
    return kept


@pytest.mark.parametrize("neighbours", [2, 3])
def test_the_kept_pairs_are_those_of_the_loops(neighbours):
    chances, distances = draw_chances(), draw_distances()
    kept = distil(chances, distances, neighbours=neighbours)
    assert np.array_equal(kept.numpy(), slow_distil(chances, distances, neighbours))
    assert {1.0, -1.0} < set(kept[~torch.eye(8, dtype=torch.bool)].tolist())


def test_the_least_of_the_neighbours_is_that_of_both_sides():
    values = torch.arange(9.0).reshape(3, 3)
    values = values + values.T
    found = find_least(values, torch.tensor([[1, 2], [0, 2], [0, 1]]))
    assert found[0, 0] == values[1:, 1:].min()
    assert found[0, 1] == min(values[1, 0], values[1, 2], values[2, 0], values[2, 2])


@pytest.mark.parametrize(("eta", "label"), [(0.9, 1), (0.6, 0), (0.1, -1)])
def test_the_rates_of_wrong_labels_decide_which_pairs_are_certain(eta, label):
    """With rho+ = .2 and rho- = .1, eta = .9, .6, .1 gives P = .73, .52, .17; kept above .55 and below .40.

    Image 0 is beside 2 and 4, image 1 beside 3 and 5. 4 and 5 are surely dissimilar and 2 and 3 surely similar, so the
    least chances among the neighbours are the rates themselves: r- = .1, r+ = .2.
    """
    chances = torch.full((6, 6), 0.5, dtype=torch.float64)
    chances[0, 1] = chances[1, 0] = 0.7 * eta + 0.1
    chances[2, 3] = chances[3, 2] = 0.8
    chances[4, 5] = chances[5, 4] = 0.1
    distances = torch.ones(6, 6, dtype=torch.float64).fill_diagonal_(0)
    for image, (near, far) in enumerate([(2, 4), (3, 5)]):
        distances[image, near], distances[image, far] = 0.1, 0.2
    # Ranks: 0 the image itself, 1 the near one, 2 the far one. r+ is over ranks 0 and 1, r- over ranks 2 and 3.
    distances[0, 5], distances[1, 4] = 0.3, 0.3
    assert distil(chances, distances, neighbours=2)[0, 1] == label


def test_no_pair_that_is_kept_is_mislabelled_where_the_rates_are_equal_everywhere():
    """Random eta, rho+ and rho- equal among neighbours: r- >= rho- and r+ >= rho+, so P tells on which side eta is."""
    generator = np.random.default_rng(0)
    kept = 0
    for _ in range(200):
        eta = generator.uniform(size=(8, 8))
        eta = np.triu(eta) + np.triu(eta, 1).T
        similar_wrong, dissimilar_wrong = generator.dirichlet([1, 1, 1])[:2]
        chances = (1 - similar_wrong - dissimilar_wrong) * eta + dissimilar_wrong
        found = distil(torch.from_numpy(chances), draw_distances(), neighbours=3).numpy()
        assert (eta[found > 0] > 0.5).all()
        assert (eta[found < 0] < 0.5).all()
        kept += np.abs(found).sum()
    assert kept > 200


def test_the_loss_is_the_mean_surprise_of_labelled_pairs():
    generator = torch.Generator().manual_seed(0)
    hidden = torch.rand(4, 3, generator=generator) * 2 - 1
    labels = torch.tensor([[0, 1, -1, 0], [1, 0, 0, -1], [-1, 0, 0, 1], [0, -1, 1, 0]]).float()
    losses = []
    for i in range(4):
        for j in range(4):
            if labels[i, j] != 0:
                product = sum(a * b for a, b in zip(hidden[i].tolist(), hidden[j].tolist(), strict=True))
                chance = 1 / (1 + math.exp(-product / 2))
                losses.append(-math.log(chance if labels[i, j] > 0 else 1 - chance))
    assert surprise(hidden, labels).item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert surprise(hidden, torch.zeros(4, 4)).item() == 0


def test_a_batch_has_the_labels_of_its_images_and_says_how_many_there_are(draw_clusters):
    data = draw_clusters()
    objective = DistillHash(**PARAMETERS).objective(data, bits=6, seed=0)
    rows, views = torch.tensor([7, 31, 2, 50]), torch.full((4, 12), torch.nan)
    terms = objective.cached_loss(rows, views, views)
    labels = objective.labels[rows][:, rows]
    hidden = objective.head(torch.from_numpy(data.features[rows.numpy()])).tanh()
    torch.testing.assert_close(terms["loss"], surprise(hidden, labels))
    assert terms["kept"].item() == pytest.approx((labels != 0).sum().item() / 16)
    assert terms["similar"].item() == pytest.approx((labels > 0).sum().item() / max((labels != 0).sum().item(), 1))


def test_the_head_starts_anew_after_the_pairs_are_distilled(draw_clusters):
    data = draw_clusters()
    short, long = (DistillHash(**PARAMETERS | {"warm_up": n}).objective(data, bits=6, seed=3) for n in (1, 3))
    assert torch.equal(short.head.linear.weight, long.head.linear.weight)
    assert not torch.equal(short.labels, long.labels)


def test_images_without_similar_pairs_are_refused(draw_clusters):
    method = DistillHash(**PARAMETERS)
    with pytest.raises(TrainingError, match="kept no similar pair of 60 training images: look at"):
        method.objective(draw_alike(draw_clusters()), bits=6, seed=0)
    with pytest.raises(TrainingError, match="found 4 training images, 3 neighbours of each need 5"):
        method.objective(draw_clusters(count=4), bits=6, seed=0)


def draw_alike(data):
    return type(data)(np.ones_like(data.features), np.ones_like(data.views))
