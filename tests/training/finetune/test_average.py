"""Averaged weights: the average itself, and that it is what a run validates and keeps."""

import numpy as np
import pytest
import torch
from tests.training.finetune.tiny import BITS, all_weights, fit, make_loop

from nsh.methods import create
from nsh.training.finetune.state import FineTuningState

DECAY = 0.5  # reached in the eighth of nine steps


@pytest.fixture
def steps(monkeypatch):
    """The weights before the first step and after every step, float64."""
    seen, step = [], FineTuningState.step

    def look(self):
        network = self.module.network.state_dict(prefix="network.")
        head = self.module.objective.head.state_dict(prefix="head.")
        seen.append({name: value.double().numpy().copy() for name, value in (network | head).items()})

    def watched(self, pair, *, seed):
        if not seen:
            look(self)
        terms = step(self, pair, seed=seed)
        look(self)
        return terms

    monkeypatch.setattr(FineTuningState, "step", watched)
    return seen


def average_slowly(steps, name):
    """The mean of the weights that the run began with and of those after each step, weighed as TensorFlow does."""
    decays = [min(DECAY, (1 + step) / (10 + step)) for step in range(1, len(steps))]
    shares = [np.prod(decays), *((1 - decay) * np.prod(decays[row + 1 :]) for row, decay in enumerate(decays))]
    assert sum(shares) == pytest.approx(1)
    return sum(share * weights[name] for share, weights in zip(shares, steps, strict=True))


@pytest.mark.parametrize("batch_norm", ["frozen", "trained"])
def test_a_run_keeps_the_average_of_all_weights_and_statistics(tmp_path, tiny, steps, batch_norm):
    loop = make_loop(tmp_path, average=DECAY, batch_norm=batch_norm, learning_rate=1e-2)
    kept = all_weights(loop, fit(loop, tiny.data))
    assert len(steps) == 10
    for name, value in kept.items():
        if value.is_floating_point():
            np.testing.assert_allclose(value.numpy(), average_slowly(steps, name), rtol=1e-5, atol=1e-6, err_msg=name)
    trained = "network.norm.running_mean"
    assert np.array_equal(steps[-1][trained], steps[0][trained]) is (batch_norm == "frozen")
    assert not np.allclose(kept["network.last.weight"], steps[-1]["network.last.weight"], atol=1e-4)


def test_statistics_of_the_heads_batch_normalisation_are_averaged_too(tmp_path, tiny, steps):
    names = {"epochs": 2, "batch": 6, "d_z": 8, "m": 2, "hidden": 8, "directions": 4, "neighbours": 0.1, "queue": 6}
    made = make_loop(tmp_path, average=DECAY)
    head = create("nsh_plus", names).fit(tiny.data, bits=BITS, seed=0, report=lambda record: None, loop=made)
    (found,) = [name for name in head.state_dict() if name.endswith("running_mean")]
    kept, name = head.state_dict()[found].numpy(), f"head.{found}"
    np.testing.assert_allclose(kept, average_slowly(steps, name), rtol=1e-5, atol=1e-6)
    assert not np.allclose(kept, steps[-1][name], atol=1e-4)


def test_few_steps_forget_the_weights_that_the_run_began_with(tmp_path, tiny, steps):
    """At .99 for every step, .97 of the average after three steps would be those."""
    loop = make_loop(tmp_path, average=0.99, learning_rate=1e-2)
    kept = all_weights(loop, fit(loop, tiny.data, epochs=1))["network.last.weight"].double().numpy()
    first, last = (steps[row]["network.last.weight"] for row in (0, -1))
    assert len(steps) == 4
    assert np.linalg.norm(kept - first) > 0.5 * np.linalg.norm(last - first)


def test_without_a_decay_the_last_steps_weights_are_kept_exactly(tmp_path, tiny, steps):
    loop = make_loop(tmp_path, average=0.0)
    kept = all_weights(loop, fit(loop, tiny.data))
    assert all(np.array_equal(value.double().numpy(), steps[-1][name]) for name, value in kept.items())


def test_the_training_itself_does_not_depend_on_the_decay(tmp_path, tiny, steps):
    for number, decay in enumerate((0.0, DECAY)):
        fit(make_loop(tmp_path / str(number), average=decay), tiny.data)
    assert len(steps) == 19  # the second run's beginning is not looked at
    for first, second in zip(steps[1:10], steps[10:], strict=True):
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_the_averaged_weights_are_validated(tmp_path, tiny, monkeypatch):
    validated, held_out_loss = [], FineTuningState.held_out_loss

    def watch(self, pair):
        validated.append(self.module.network.last.weight.detach().clone())
        return held_out_loss(self, pair)

    monkeypatch.setattr(FineTuningState, "held_out_loss", watch)
    loop = make_loop(tmp_path, average=DECAY)
    fit(loop, tiny.data)
    assert torch.equal(validated[-1], loop.network.last.weight)


def test_the_best_epochs_average_is_kept(tmp_path, tiny, monkeypatch):
    """At so large a rate the held-out loss rises again."""
    averages, save_best = [], FineTuningState.save_best

    def watch(self):
        averages.append(self.average.state_dict()["weights"]["network.last.weight"].clone())
        save_best(self)

    monkeypatch.setattr(FineTuningState, "save_best", watch)
    loop, records = make_loop(tmp_path, average=DECAY, keep="best", learning_rate=0.05, patience=2), []
    fit(loop, tiny.data, records=records, epochs=40, learning_rate=0.3)
    assert np.argmin([record["held_out_loss"] for record in records]) + 1 < len(records)
    assert torch.equal(loop.network.last.weight, averages[-1])
