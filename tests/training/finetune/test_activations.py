"""An upper part learns from inner activations: which views they are of, and what an interruption leaves the same."""

import shutil

import numpy as np
import pytest
import torch
from tests.training.finetune.test_resume import EVERY_STEP, CutError, cut_at
from tests.training.finetune.tiny import IMAGES, SIZE, all_weights, are_equal, fit, make_loop, make_network
from torch import nn

from nsh.errors import ConfigError
from nsh.training.augment import augment, view_generator
from nsh.training.finetune import activations
from nsh.training.finetune.activations import Activations, LowerPart
from nsh.training.reproducible import reproducible

SHAPE = (6, 7, 7)
VIEWS, SEED = 10, 3  # 6 images in a call of the lower part


class Lower(nn.Module):
    """The convolution of the tiny network; breaks off at a call, if it is to."""

    def __init__(self, network, break_at=None):
        super().__init__()
        self.convolution, self.break_at, self.calls = network.convolution, break_at, 0

    def forward(self, images):
        self.calls += 1
        if self.calls == self.break_at:
            raise CutError
        return self.convolution(images.permute(0, 3, 1, 2).float() / 255 - 0.5).flatten(1)


def make_cut_loop(cache, *, break_at=None, block="norm", **changes):
    """The loop over the tiny network cut behind its convolution, which does not learn."""
    network = make_network()
    pooling = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    upper = nn.Sequential(nn.Unflatten(1, SHAPE), network.norm, nn.ReLU(), *pooling, network.dropout, network.last)
    lower = LowerPart(
        network=Lower(network, break_at), block=block, shape=SHAPE, views=VIEWS, seed=SEED, made_of={"weights": "tiny"}
    )
    return make_loop(cache, network=upper, lower=lower, **changes)


def whole(cache, data, **changes):
    records, loop = [], make_cut_loop(cache, **changes)
    return all_weights(loop, fit(loop, data, records=records)), records


def files_of(cache):
    return {path.name: path.read_bytes() for path in cache.glob("activations/*/*")}


def prepare(cache, *, workers=1, **changes):
    """The activations of all images."""
    loop = make_cut_loop(cache, **changes)
    object.__setattr__(loop.images, "workers", workers)
    where = {"cache": cache / "activations", "device": torch.device("cpu")}
    return Activations.prepare(loop.images, lower=loop.lower, **where, progress=loop.progress, say=loop.say)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Holds the activations of all images."""
    folder = tmp_path_factory.mktemp("whole")
    prepare(folder)
    return folder


@pytest.fixture
def opened(cache):
    return prepare(cache)


def lower_of(pixels):
    with reproducible(1), torch.no_grad():
        return Lower(make_network())(torch.from_numpy(np.stack(pixels))).numpy()


def test_the_views_are_those_of_the_stage_embed(opened, tiny):
    assert opened.views.shape == (IMAGES, VIEWS, np.prod(SHAPE))
    assert opened.views.dtype == np.float16
    drawn = [
        augment(tiny.pixels[row], view_generator(SEED, image=row, view=view), size=SIZE, resample="bilinear")
        for row, view in ((0, 0), (7, 9), (23, 4))
    ]
    np.testing.assert_allclose(opened.views[[0, 7, 23], [0, 9, 4]], lower_of(drawn), atol=1e-3)


def test_a_pair_is_two_different_views_of_an_image_or_a_view_of_each_of_two(opened):
    pairs = np.array([(3, 3), (8, 8), (5, 11), (0, 0)])
    batches = [pairs[:3], pairs[3:]]
    found = list(opened.read_pairs(batches, seed=1, epoch=2))
    assert [rows.tolist() for rows, _, _ in found] == [[3, 8, 5], [0]]
    for batch, (_, *both) in zip(batches, found, strict=True):
        for images, seen in zip(batch.T, both, strict=True):
            assert seen.dtype == torch.float32
            for image, view in zip(images, seen.numpy(), strict=True):
                assert (opened.views[image] == view).all(axis=1).sum() == 1
    assert not torch.equal(found[0][1][0], found[0][2][0])
    again = list(opened.read_pairs([pairs[::-1]], seed=1, epoch=2))
    assert torch.equal(again[0][1].flip(0), torch.cat([first for _, first, _ in found]))
    other = list(opened.read_pairs([pairs], seed=1, epoch=3))
    assert not torch.equal(other[0][1], torch.cat([first for _, first, _ in found]))


def test_clean_images_are_what_the_encoder_sees(opened, tiny):
    (found,) = opened.read_clean([np.array([20, 4])])
    expected = lower_of([np.asarray(tiny.pixels[row]) for row in (20, 4)])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("batch_norm", ["frozen", "trained"])
def test_the_upper_part_learns_and_the_lower_part_is_left_as_it_is(tmp_path, tiny, batch_norm):
    loop, records, before = make_cut_loop(tmp_path, batch_norm=batch_norm), [], make_network()
    fit(loop, tiny.data, records=records, epochs=1)
    assert list(records[0]) == ["epoch", "loss", "sorted_nce", "quantisation", "held_out_loss", "bit_balance"]
    learnt = {name.partition(".")[0] for name, _ in loop.network.named_parameters()}
    assert learnt == {"1", "6"}  # normalisation and last layer
    assert not torch.equal(loop.network[6].weight, before.last.weight)
    assert torch.equal(loop.network[1].running_mean, before.norm.running_mean) == (batch_norm == "frozen")
    assert are_equal(loop.lower.network.state_dict(), Lower(before).state_dict())


def test_a_second_run_reads_no_image_and_runs_no_lower_layer(tmp_path, tiny):
    said = []
    prepare(tmp_path, say=said.append)
    loop = make_cut_loop(tmp_path, break_at=1, say=said.append)
    object.__setattr__(loop.images, "load", None)
    fit(loop, tiny.data, epochs=1)
    (line,) = said
    expected = (
        "norm learns from activations of shape [6, 7, 7]: 588 bytes a view in float16, 0.2 MB for 10 views of 24 "
    )
    assert line.startswith(expected + "images, in ")
    assert not (tmp_path / "images").exists()


@pytest.mark.parametrize("break_at", [1, 2, 4])
def test_activations_that_were_cut_anywhere_are_those_of_an_uninterrupted_run(tmp_path, cache, break_at):
    """The second run also finds half a batch, and has three times as many threads."""
    with pytest.raises(CutError):
        prepare(tmp_path, break_at=break_at)
    for path in tmp_path.glob("activations/*/*"):
        with path.open("ab") as file:
            file.write(b"half")
    prepare(tmp_path, workers=3)
    assert files_of(tmp_path) == files_of(cache)
    assert len(files_of(tmp_path)) == 2


@pytest.mark.parametrize(("method", "call"), [("step", 5), ("held_out_loss", 2)])
def test_a_run_that_was_cut_anywhere_ends_as_an_uninterrupted_one(tmp_path, tiny, monkeypatch, method, call):
    changes = EVERY_STEP | {"batch_norm": "trained", "keep": "best"}
    expected, expected_records = whole(tmp_path / "whole", tiny.data, **changes)
    with monkeypatch.context() as patch:
        cut_at(patch, method, call)
        with pytest.raises(CutError):
            fit(make_cut_loop(tmp_path / "cut", **changes), tiny.data)
    found, records = whole(tmp_path / "cut", tiny.data, **changes)
    assert are_equal(found, expected)
    assert records == expected_records


def test_activations_of_another_block_are_others_and_an_unfinished_run_is_told_of(tmp_path, tiny, monkeypatch):
    with monkeypatch.context() as patch:
        cut_at(patch, "step", 5)
        with pytest.raises(CutError):
            fit(make_cut_loop(tmp_path, **EVERY_STEP), tiny.data)
    said = []
    fit(make_cut_loop(tmp_path, block="other", say=said.append), tiny.data, epochs=1)
    assert len(list(tmp_path.glob("activations/*"))) == 2
    assert said[-1].endswith("is left alone: epochs: 3 there, 1 here; lower.from: norm there, other here")


def test_more_than_the_limit_or_the_disk_holds_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(activations, "LIMIT", 100_000)
        with pytest.raises(
            ConfigError, match=r"norm learns from .* 0\.2 MB for 10 views of 24 images; allowed .* 0\.1 MB"
        ):
            prepare(tmp_path)
    total, used, _ = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(total, used, 50_000))
    with pytest.raises(ConfigError, match=r"here 0\.1 MB: choose a later block, or lower embed.views or split.train"):
        prepare(tmp_path)
    assert files_of(tmp_path) == {}


def test_ranks_of_torchrun_are_refused(tmp_path, tiny, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        ConfigError, match=r"from: found norm and 2 ranks, allowed is 1: start one, or set from to null"
    ):
        fit(make_cut_loop(tmp_path), tiny.data)
