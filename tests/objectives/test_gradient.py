"""What the rivals that learn by gradient share: seeds, clean images, the loop's call."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import CleanObjective, GradientMethod, draw_images, draw_layers
from nsh.objectives.heads.linear import to_bytes
from nsh.objectives.heads.perceptron import BalancedPerceptronHead
from nsh.training.loop import CachedViewLoop


class Nearness(Objective):
    """Pulls the logits of two views together; notes which rows it saw."""

    def __init__(self, head):
        super().__init__()
        self.head = head
        self.seen = []

    def cached_loss(self, rows, first, second):
        self.seen += rows.tolist()
        return super().cached_loss(rows, first, second)

    def forward(self, first, second):
        return {"loss": (self.head(first) - self.head(second)).square().mean()}


class CleanNorm(CleanObjective):
    def terms(self, inputs, targets):
        return {"loss": (self.head(inputs).square().mean(dim=1) * targets.mean(dim=1)).mean()}


@dataclass(frozen=True, kw_only=True)
class Near(GradientMethod):
    name = "near"

    def build(self, head, data, *, seed):
        return Nearness(head)


@dataclass(frozen=True, kw_only=True)
class Clean(GradientMethod):
    name = "clean"

    def build(self, head, data, *, seed):
        return CleanNorm(head, data)


def toy(kind=Near, **changes):
    return kind(**{"epochs": 2, "batch": 10, "learning_rate": 1e-2} | changes)


def test_the_seed_alone_draws_every_layer(draw_clusters):
    torch.rand(3)
    states = [toy().objective(draw_clusters(), bits=4, seed=seed).state_dict() for seed in (1, 1, 2)]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert not torch.equal(states[0]["head.linear.weight"], states[2]["head.linear.weight"])


def test_the_head_is_standardised_on_the_clean_features(draw_clusters):
    data = draw_clusters()
    head = toy().objective(data, bits=4, seed=0).head
    standardised = head.standardise(torch.from_numpy(data.features))
    torch.testing.assert_close(standardised.mean(0), torch.zeros(12), atol=1e-5, rtol=0)
    torch.testing.assert_close(standardised.std(0, correction=0), torch.ones(12))


def test_layers_of_equal_shape_are_drawn_differently():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    draw_layers(module, seed=0)
    assert not torch.equal(module[0].weight, module[2].weight)


def test_the_objective_is_told_which_images_it_sees(draw_clusters, tmp_path):
    objective = toy().objective(draw_clusters(), bits=4, seed=0)
    method = toy()
    object.__setattr__(method, "objective", lambda data, *, bits, seed: objective)
    loop = CachedViewLoop(cache=tmp_path, threads=1)
    method.fit(draw_clusters(), bits=4, seed=0, report=lambda record: None, loop=loop)
    assert sorted(objective.seen) == sorted([*range(60)] * 2)
    assert objective.seen[:60] != sorted(objective.seen[:60])


@dataclass(frozen=True, kw_only=True)
class Few(Clean):
    """Trains on 20 of the first 30 images."""

    def select(self, data, *, seed):
        return draw_images(TrainingData(data.features[:30], data.views[:30]), count=20, seed=seed)


def test_drawn_images_are_in_order_and_know_their_rows(draw_clusters):
    data = draw_clusters()
    drawn = draw_images(data, count=20, seed=3)
    assert len(drawn.rows) == len(set(drawn.rows.tolist())) == 20
    assert drawn.rows.tolist() == sorted(drawn.rows)
    assert np.array_equal(drawn.features, data.features[drawn.rows])
    assert np.array_equal(drawn.views, data.views[drawn.rows])
    assert draw_images(data, count=60, seed=3) is data


def test_a_run_sees_only_the_images_that_its_method_selects(draw_clusters, tmp_path):
    data = draw_clusters()
    data.features[30:] = 1e30
    records = []
    loop = CachedViewLoop(cache=tmp_path, threads=1)
    head = toy(Few, learning_rate=1e-6).fit(data, bits=4, seed=0, report=records.append, loop=loop)
    assert records[0]["loss"] < 100
    assert float(head.mean.max()) < 10


@dataclass(frozen=True, kw_only=True)
class Scaled(Near):
    scale: float

    def build(self, head, data, *, seed):
        return ScaledNearness(head, self.scale)


class ScaledNearness(Nearness):
    def __init__(self, head, scale):
        super().__init__(head)
        self.scale = scale

    def forward(self, first, second):
        return {"loss": self.scale * super().forward(first, second)["loss"] ** 2 + self.head(first).mean()}


class StoppedError(Exception):
    """Raised by a report to break off a run between two epochs."""


def stop(record):
    raise StoppedError


def test_a_run_never_goes_on_from_one_with_another_parameter(draw_clusters, tmp_path):
    loop = CachedViewLoop(cache=tmp_path / "same", threads=1)
    with pytest.raises(StoppedError):
        toy(Scaled, scale=1.0).fit(draw_clusters(), bits=4, seed=0, report=stop, loop=loop)
    assert list((tmp_path / "same").rglob("*.ckpt"))
    fresh = CachedViewLoop(cache=tmp_path / "fresh", threads=1)
    heads = [
        toy(Scaled, scale=5.0).fit(draw_clusters(), bits=4, seed=0, report=lambda record: None, loop=one)
        for one in (loop, fresh)
    ]
    assert to_bytes(heads[0]) == to_bytes(heads[1])


def test_a_clean_objective_looks_at_clean_images_and_not_at_views(draw_clusters):
    data = draw_clusters()
    objective = CleanNorm(toy().head(12, 4), data)
    rows, noise = torch.tensor([5, 0, 9]), torch.full((3, 12), torch.nan)
    clean = torch.from_numpy(data.features[[5, 0, 9]])
    torch.testing.assert_close(objective.cached_loss(rows, noise, noise), objective.terms(clean, clean))


def test_where_the_backbone_learns_both_views_are_read_and_the_target_stays_the_clean_image(draw_clusters):
    data = draw_clusters()
    objective, rows = CleanNorm(toy().head(12, 4), data), torch.tensor([5, 0, 9])
    views = [torch.from_numpy(data.views[rows, view]).float().requires_grad_() for view in (0, 1)]
    clean = torch.from_numpy(data.features[[5, 0, 9]])
    one, other = (objective.terms(view, clean)["loss"] for view in views)
    tuned = objective.tune(rows, *views)["loss"]
    torch.testing.assert_close(tuned, (one + other) / 2)
    tuned.backward()
    assert all(view.grad.abs().sum() > 0 for view in views)


def test_an_image_is_its_own_partner_and_fine_tuned_as_it_is_measured(draw_clusters):
    objective = Nearness(toy().head(12, 4))
    rows, views = np.array([5, 0, 9]), torch.from_numpy(draw_clusters().views[:3]).float().unbind(dim=1)
    assert objective.partners(rows, np.random.default_rng(0)).tolist() == [5, 0, 9]
    tuned, measured = (call(torch.from_numpy(rows), *views[:2]) for call in (objective.tune, objective.cached_loss))
    torch.testing.assert_close(tuned, measured)
    assert objective.seen == [5, 0, 9, 5, 0, 9]


def test_the_images_are_no_part_of_the_state(draw_clusters):
    assert "features" not in CleanNorm(toy().head(12, 4), draw_clusters()).state_dict()


@pytest.mark.parametrize("kind", [Near, Clean])
def test_a_run_minimises(kind, draw_clusters, tmp_path):
    records = []
    loop = CachedViewLoop(cache=tmp_path, threads=1)
    head = toy(kind, epochs=20).fit(draw_clusters(), bits=4, seed=0, report=records.append, loop=loop)
    assert records[-1]["loss"] < 0.5 * records[0]["loss"]
    assert not head.training


@dataclass(frozen=True, kw_only=True)
class Balanced(Near):
    def head(self, dim, bits):
        return BalancedPerceptronHead(dim, bits, hidden=8)


def test_a_batch_normalisation_learns_from_the_steps_and_not_from_the_report(draw_clusters, tmp_path):
    loop = CachedViewLoop(cache=tmp_path, threads=1)
    head = toy(Balanced, epochs=3).fit(draw_clusters(), bits=4, seed=0, report=lambda record: None, loop=loop)
    assert int(head.balance.num_batches_tracked) == 3 * 6 * 2  # epochs, steps, views
    assert not head.training
