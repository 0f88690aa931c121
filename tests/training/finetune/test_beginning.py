"""A longer run goes on from a shorter one, and ends as if it had been trained at once."""

import pytest
import torch
from tests.training.finetune.test_resume import EVERY_STEP, CutError, cut_at, whole
from tests.training.finetune.tiny import BITS, NSH, all_weights, are_equal, fit, make_loop

from nsh.methods import create
from nsh.training.finetune.state import FineTuningState
from nsh.training.loop import CachedViewLoop


@pytest.fixture
def steps(monkeypatch):
    """Epoch and step of every step that is trained."""
    seen, step = [], FineTuningState.step

    def count(self, pair, *, seed):
        seen.append((self.position.epoch, self.position.step))
        return step(self, pair, seed=seed)

    monkeypatch.setattr(FineTuningState, "step", count)
    return seen


def folder_of(cache, epochs):
    """The folder of the run with so many epochs."""
    (found,) = [
        path.parent
        for path in cache.glob("*/last.ckpt")
        if torch.load(path, weights_only=True)["provenance"]["epochs"] == epochs
    ]
    return found


@pytest.mark.parametrize("keep", ["last", "best"])
def test_a_longer_run_goes_on_from_a_finished_shorter_one(tmp_path, tiny, steps, keep):
    changes = {"average": 0.8, "keep": keep}
    expected, expected_records = whole(tmp_path, tiny.data, **changes)
    steps.clear()
    fit(make_loop(tmp_path / "longer", **changes), tiny.data, epochs=1)
    said, records = [], []
    loop = make_loop(tmp_path / "longer", say=said.append, **changes)
    assert are_equal(all_weights(loop, fit(loop, tiny.data, records=records)), expected)
    assert records == expected_records
    assert steps == [(epoch, step) for epoch in range(3) for step in range(3)]
    long, short = (folder_of(tmp_path / "longer", epochs) for epochs in (3, 1))
    assert said == [f"{long} goes on from {short}, the same run with epochs: 1"]


def test_it_goes_on_from_the_one_that_has_come_furthest_finished_or_not(tmp_path, tiny, steps, monkeypatch):
    expected, _ = whole(tmp_path, tiny.data, **EVERY_STEP)
    fit(make_loop(tmp_path / "longer", **EVERY_STEP), tiny.data, epochs=1)
    with monkeypatch.context() as patch:
        cut_at(patch, "step", 3)
        with pytest.raises(CutError):
            fit(make_loop(tmp_path / "longer", **EVERY_STEP), tiny.data, epochs=2)
    steps.clear()
    said = []
    loop = make_loop(tmp_path / "longer", say=said.append, **EVERY_STEP)
    assert are_equal(all_weights(loop, fit(loop, tiny.data)), expected)
    assert steps[0] == (1, 2)
    assert len(said) == 1  # the unfinished one is not called another run


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_longer_run_that_was_cut_while_it_began_ends_as_an_uninterrupted_one(
    tmp_path, tiny, steps, monkeypatch, written
):
    """Before its best weights were copied, between these and the whole state, and after both."""
    changes = {"keep": "best", "average": 0.8}
    expected, _ = whole(tmp_path, tiny.data, **changes)
    fit(make_loop(tmp_path / "longer", **changes), tiny.data, epochs=1)
    with monkeypatch.context() as patch:
        calls, save = [], torch.save

        def cut(*arguments):
            calls.append(1)
            if len(calls) > written:
                raise CutError
            save(*arguments)

        patch.setattr(torch, "save", cut)
        with pytest.raises(CutError):
            fit(make_loop(tmp_path / "longer", **changes), tiny.data)
    steps.clear()
    loop = make_loop(tmp_path / "longer", **changes)
    assert are_equal(all_weights(loop, fit(loop, tiny.data)), expected)
    assert steps == [(epoch, step) for epoch in (1, 2) for step in range(3)]


@pytest.mark.parametrize("change", [{"seed": 1}, {"tau_c": 0.3}, {"batch": 3}])
def test_a_shorter_run_with_another_difference_is_left_alone(tmp_path, tiny, steps, change):
    fit(make_loop(tmp_path), tiny.data, epochs=1)
    steps.clear()
    fit(make_loop(tmp_path), tiny.data, **change)
    assert steps[0] == (0, 0)


def test_the_checkpoint_of_a_training_of_heads_is_no_shorter_run(tmp_path, tiny, steps):
    """It lies in the same cache until its stage has ended."""
    cached = CachedViewLoop(cache=tmp_path, threads=1)
    create("nsh", NSH | {"epochs": 1}).fit(tiny.data, bits=BITS, seed=0, report=lambda record: None, loop=cached)
    assert len(list(tmp_path.glob("*/last.ckpt"))) == 1
    fit(make_loop(tmp_path), tiny.data)
    assert steps[0] == (0, 0)


def test_a_shorter_run_begins_afresh(tmp_path, tiny, steps):
    expected, _ = whole(tmp_path, tiny.data, keep="last")
    fit(make_loop(tmp_path / "shorter"), tiny.data, epochs=4)
    steps.clear()
    loop = make_loop(tmp_path / "shorter")
    assert are_equal(all_weights(loop, fit(loop, tiny.data)), expected)
    assert len(steps) == 9


@pytest.mark.parametrize("content", ["", "cut", "text"])
def test_a_damaged_state_of_another_run_is_no_beginning(tmp_path, tiny, steps, content):
    fit(make_loop(tmp_path), tiny.data, epochs=1)
    path = folder_of(tmp_path, 1) / "last.ckpt"
    path.write_bytes({"": b"", "cut": path.read_bytes()[:1000], "text": b"no checkpoint\n" * 100}[content])
    steps.clear()
    fit(make_loop(tmp_path), tiny.data)
    assert steps[0] == (0, 0)
