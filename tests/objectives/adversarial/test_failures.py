"""Collapsed codes and vanished critics: what tells them, and each of them provoked."""

import math
import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from nsh.errors import TrainingError
from nsh.methods import TrainingData, create
from nsh.objectives.adversarial.failures import (
    CollapsedCodes,
    FailedTraining,
    VanishedCritic,
    has_collapsed,
    has_vanished,
    warn_of_failures,
    watch_codes,
)
from nsh.training.loop import CachedViewLoop

SMALL = {"epochs": 4, "batch": 20, "learning_rate": 0.01, "hidden": 16}
METHODS = ["bgan", "bingan", "hashgan"]


def slow_information(codes, bits):
    count = Counter(tuple(one > 0 for one in code) for code in codes)
    chances = [number / len(codes) for number in count.values()]
    return -sum(p * math.log2(p) for p in chances) / min(bits, math.log2(len(codes)))


@pytest.mark.parametrize(("images", "bits"), [(40, 3), (40, 8), (5, 1), (2, 1)])
def test_information_is_the_entropy_of_the_codes_over_the_most_they_could_have(images, bits):
    logits = torch.randn(images, bits, generator=torch.Generator().manual_seed(0))
    found = watch_codes(nn.Identity(), logits)["code_information"].item()
    assert found == pytest.approx(slow_information(logits.tolist(), bits), abs=1e-6)


def test_one_code_tells_nothing_and_different_codes_tell_all():
    assert watch_codes(nn.Identity(), torch.ones(9, 4))["code_information"] == 0
    assert watch_codes(nn.Identity(), torch.ones(8, 3) - 2 * torch.eye(8)[:, :3])["code_information"] < 1
    assert watch_codes(nn.Identity(), 1 - 2 * torch.eye(8))["code_information"].item() == pytest.approx(1)


def record(information=1.0, real=0.7, fake=0.3):
    return {"code_information": information, "critic_real": real, "critic_fake": fake}


@pytest.mark.parametrize("images", [64, 128])
def test_two_opposite_codes_have_collapsed(images):
    """HashGAN at 16 bits on Fashion-MNIST gave 88 % of the images one of two codes."""
    codes = torch.ones(images, 16)
    codes[::2] = -1
    codes[: images // 8] = torch.randn(images // 8, 16, generator=torch.Generator().manual_seed(0))
    assert has_collapsed(record() | watch_codes(nn.Identity(), codes))


@pytest.mark.parametrize(
    ("found", "collapsed", "vanished"),
    [
        (record(), False, False),
        (record(information=0.0), True, False),
        (record(information=0.32), True, False),
        (record(information=0.4), False, False),
        (record(real=1.0, fake=0.0), False, True),
        (record(real=1.0, fake=0.1), False, False),
        (record(real=0.5, fake=0.5), False, True),
        (record(real=1.0, fake=1.0), False, True),
        (record(real=0.5001, fake=0.5), False, False),
    ],
)
def test_a_record_tells_what_has_failed(found, collapsed, vanished):
    assert (has_collapsed(found), has_vanished(found)) == (collapsed, vanished)
    with warnings.catch_warnings(record=True, action="always") as caught:
        warn_of_failures("bgan at 8 bits", found)
    assert [one.category for one in caught] == [CollapsedCodes] * collapsed + [VanishedCritic] * vanished
    assert all(str(one.message).startswith("bgan at 8 bits: the ") for one in caught)


class Loop(CachedViewLoop):
    """The loop, with a change to the objective before it begins."""

    def __call__(self, objective, data, **rest):
        self.change(objective)
        super().__call__(objective, data, **rest)


def fit(method, data, tmp_path, *, change=lambda objective: None):
    records, loop = [], Loop(cache=tmp_path / "cache", threads=1)
    object.__setattr__(loop, "change", change)
    method.fit(data, bits=8, seed=0, report=records.append, loop=loop)
    return records


@pytest.mark.parametrize("name", METHODS)
def test_a_training_that_goes_well_warns_of_nothing(name, draw_clusters, tmp_path):
    records = fit(create(name, SMALL), draw_clusters(), tmp_path)
    assert [(row["collapsed"], row["vanished"]) for row in records] == [(0, 0)] * 4


@pytest.mark.parametrize("name", METHODS)
def test_codes_that_are_nearly_all_the_same_are_told(name, draw_clusters, tmp_path):
    features = draw_clusters().features[[0, *[1] * 59]]
    data = TrainingData(features, np.repeat(features[:, None], 2, axis=1).astype(np.float16))
    with pytest.warns(FailedTraining) as caught:
        records = fit(create(name, SMALL), data, tmp_path)
    told = [one for one in caught if one.category is CollapsedCodes]
    assert [one.filename for one in told] == [__file__]
    assert str(told[0].message).startswith(f"{name} at 8 bits: the codes have collapsed, and tell ")
    assert [row["collapsed"] for row in records] == [1] * 4


def stop_generator(objective):
    torch.nn.init.constant_(objective.generator[-1].bias, 30)
    objective.generator.requires_grad_(False)


@pytest.mark.parametrize("name", ["bgan", "bingan"])
def test_a_generator_that_stands_far_away_makes_the_critic_certain(name, draw_clusters, tmp_path):
    method = create(name, SMALL | {"epochs": 20, "learning_rate": 0.05})
    with pytest.warns(VanishedCritic, match="the critic has vanished: D"):
        records = fit(method, draw_clusters(), tmp_path, change=stop_generator)
    assert (records[0]["vanished"], records[-1]["vanished"]) == (0, 1)
    assert records[-1]["critic_real"] > 0.99


def blind_critic(objective):
    torch.nn.init.zeros_(objective.judge.weight)
    objective.judge.requires_grad_(False)


@pytest.mark.parametrize("name", METHODS)
def test_a_critic_that_tells_nothing_apart_is_told(name, draw_clusters, tmp_path):
    with pytest.warns(FailedTraining, match="the critic has vanished: D"):
        records = fit(create(name, SMALL), draw_clusters(), tmp_path, change=blind_critic)
    assert records[-1]["critic_real"] == records[-1]["critic_fake"]


@pytest.mark.parametrize("name", METHODS)
def test_images_that_are_all_alike_are_refused(name, draw_clusters, tmp_path):
    data = draw_clusters()
    data.features[:] = data.features[0]
    with pytest.raises(TrainingError, match=r"^all training images have the same embedding"):
        fit(create(name, SMALL), data, tmp_path)
