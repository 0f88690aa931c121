"""An interrupted run ends as an uninterrupted one, wherever it was cut; another run's state is never taken over."""

import math
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from tests.training.finetune.tiny import all_weights, are_equal, fit, make_loop

from nsh.errors import TrainingError
from nsh.training.finetune.state import FineTuningState, Position

ROOT = Path(__file__).parents[3]
EVERY_STEP = {"checkpoint_minutes": 0.0}


class CutError(Exception):
    """Breaks a run off."""


def cut_at(monkeypatch, name, call):
    """Let the method `name` of a run break it off when it is called for the `call`th time."""
    calls, method = [], getattr(FineTuningState, name)

    def counting(self, *arguments, **keywords):
        calls.append(1)
        if len(calls) == call:
            raise CutError
        return method(self, *arguments, **keywords)

    monkeypatch.setattr(FineTuningState, name, counting)


def let_every_epoch_be_the_best(monkeypatch):
    """Whether the second one has a smaller loss than the first is for rounding to decide."""
    finish = Position.finish_epoch

    def forgetting(self, record):
        self.best_loss = math.inf
        return finish(self, record)

    monkeypatch.setattr(Position, "finish_epoch", forgetting)


def whole(tmp_path, data, **changes):
    records, loop = [], make_loop(tmp_path / "whole", **changes)
    return all_weights(loop, fit(loop, data, records=records)), records


@pytest.mark.parametrize("batch_norm", ["frozen", "trained"])
@pytest.mark.parametrize(
    ("method", "call"), [("step", 1), ("step", 2), ("step", 5), ("held_out_loss", 2), ("save_best", 2)]
)
def test_a_run_that_was_cut_anywhere_ends_as_an_uninterrupted_one(
    tmp_path, tiny, monkeypatch, method, call, batch_norm
):
    changes = EVERY_STEP | {"batch_norm": batch_norm, "average": 0.8, "keep": "best"}
    if method == "save_best":
        let_every_epoch_be_the_best(monkeypatch)
    expected, expected_records = whole(tmp_path, tiny.data, **changes)
    with monkeypatch.context() as patch:
        cut_at(patch, method, call)
        with pytest.raises(CutError):
            fit(make_loop(tmp_path / "cut", **changes), tiny.data)
    records, loop = [], make_loop(tmp_path / "cut", **changes)
    assert are_equal(all_weights(loop, fit(loop, tiny.data, records=records)), expected)
    assert records == expected_records


def test_checkpoints_come_by_the_clock_and_after_every_epoch(tmp_path, tiny, monkeypatch):
    saved, save = [], FineTuningState.save
    monkeypatch.setattr(
        FineTuningState, "save", lambda self: saved.append((self.position.epoch, self.position.step)) or save(self)
    )
    fit(make_loop(tmp_path / "rare", checkpoint_minutes=60.0), tiny.data, epochs=2)
    assert saved == [(1, 0), (2, 0)]
    saved.clear()
    fit(make_loop(tmp_path / "often", **EVERY_STEP), tiny.data, epochs=1)
    assert saved == [(0, 1), (0, 2), (0, 3), (0, 3), (1, 0)]


def test_a_finished_run_trains_no_more_and_gives_the_same_again(tmp_path, tiny, monkeypatch):
    expected, expected_records = whole(tmp_path, tiny.data)
    monkeypatch.setattr(FineTuningState, "step", None)
    again, records = whole(tmp_path, tiny.data)
    assert are_equal(again, expected)
    assert records == expected_records


def test_chance_in_a_step_is_the_same_after_an_interruption(tmp_path, tiny, monkeypatch):
    """What torch draws by itself, e.g. a dropout's mask of an objective of the user's."""
    step = FineTuningState.step

    def noisy(self, pair, *, seed):
        terms = step(self, pair, seed=seed)
        with torch.no_grad():
            self.module.network.last.bias += 0.01 * torch.rand(8)
        return terms

    monkeypatch.setattr(FineTuningState, "step", noisy)
    expected, _ = whole(tmp_path, tiny.data, **EVERY_STEP)
    with monkeypatch.context() as patch:
        cut_at(patch, "step", 5)
        with pytest.raises(CutError):
            fit(make_loop(tmp_path / "cut", **EVERY_STEP), tiny.data)
    torch.rand(11)
    loop = make_loop(tmp_path / "cut", **EVERY_STEP)
    assert are_equal(all_weights(loop, fit(loop, tiny.data)), expected)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"tau_c": 0.3}, "tau_c: 0.2 there, 0.3 here"),
        ({"seed": 5}, "seed: 0 there, 5 here"),
        ({"clip": 1.0}, "finetune.clip: None there, 1.0 here"),
        ({"epochs": 2}, "epochs: 3 there, 2 here"),
    ],
)
def test_another_run_begins_afresh_and_is_told_of_the_unfinished_one(tmp_path, tiny, monkeypatch, change, difference):
    with monkeypatch.context() as patch:
        cut_at(patch, "step", 5)
        with pytest.raises(CutError):
            fit(make_loop(tmp_path / "cut", **EVERY_STEP), tiny.data)
    said, recipe = [], {name: value for name, value in change.items() if name == "clip"}
    others = {name: value for name, value in change.items() if name != "clip"}
    loop, fresh = (make_loop(tmp_path / name, say=said.append, **recipe) for name in ("cut", "fresh"))
    assert are_equal(
        all_weights(loop, fit(loop, tiny.data, **others)), all_weights(fresh, fit(fresh, tiny.data, **others))
    )
    (line,) = said
    assert line.endswith(f"is left alone: {difference}")
    assert len(list((tmp_path / "cut").rglob("last.ckpt"))) == 2


def test_a_finished_run_is_not_spoken_of(tmp_path, tiny):
    said = []
    fit(make_loop(tmp_path, say=said.append), tiny.data, epochs=2)
    fit(make_loop(tmp_path, say=said.append), tiny.data, epochs=1)
    assert said == []


def test_a_checkpoint_of_another_run_is_refused_with_the_differences(tmp_path, tiny):
    fit(make_loop(tmp_path / "a", clip=1.0), tiny.data, epochs=1, seed=3)
    fit(make_loop(tmp_path / "b"), tiny.data, epochs=1)
    wrong, right = (next((tmp_path / name).rglob("last.ckpt")) for name in ("a", "b"))
    wrong.replace(right)
    with pytest.raises(TrainingError) as refusal:
        fit(make_loop(tmp_path / "b"), tiny.data, epochs=1)
    message = f"{right} is of another run (finetune.clip: 1.0 there, None here; seed: 3 there, 0 here): delete "
    assert str(refusal.value) == message + str(right.parent)


def test_a_damaged_checkpoint_is_refused_with_what_to_do(tmp_path, tiny):
    fit(make_loop(tmp_path), tiny.data, epochs=1)
    (path,) = tmp_path.rglob("last.ckpt")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TrainingError, match=rf"^{path} is damaged \(\w+\): delete {path.parent} to begin again$"):
        fit(make_loop(tmp_path), tiny.data, epochs=1)


def test_which_weights_are_kept_is_chosen_without_training_again(tmp_path, tiny, monkeypatch):
    fit(make_loop(tmp_path, keep="last"), tiny.data)
    monkeypatch.setattr(FineTuningState, "step", None)
    loop = make_loop(tmp_path, keep="best", checkpoint_minutes=1.0)
    fit(loop, tiny.data)
    assert len(list(tmp_path.rglob("last.ckpt"))) == 1


EPOCHS = 12  # of three steps
PROGRAM = """
    import sys
    from pathlib import Path

    from nsh.system.command import run_command
    from tests.training.finetune.tiny import fit, make_loop, make_tiny
    from tests.waiting import await_sigterm

    def show(iterable, *, desc="", total=None):
        for step in iterable:
            if (desc, step) == ("train", 26):  # in epoch 9
                await_sigterm("here")
            yield step

    loop = make_loop(Path(sys.argv[1]), progress=show, keep="best")
    run_command(lambda: fit(loop, make_tiny().data, epochs=EPOCHS))
""".replace("EPOCHS", str(EPOCHS))


@pytest.fixture(scope="module")
def expected(tiny, tmp_path_factory):
    """An uninterrupted one."""
    return train_all(tmp_path_factory.mktemp("whole"), tiny.data)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_process_and_a_second_one_give_the_weights_of_an_uninterrupted_one(tmp_path, tiny, number, expected):
    """The second one is this process."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "cut")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout.readline() == "here\n"
        process.send_signal(number)
        _, error = process.communicate()
    assert process.returncode == (128 + number if number == signal.SIGTERM else -number), error
    (checkpoint,) = (tmp_path / "cut").rglob("last.ckpt")
    position = torch.load(checkpoint, weights_only=True)["position"]
    if number == signal.SIGTERM:
        assert "run the same command again to go on" in error
        assert (position["epoch"], position["step"]) >= (8, 1)
    found = train_all(tmp_path / "cut", tiny.data)
    assert (found.steps, expected.steps) == (36 - 3 * position["epoch"] - position["step"], 36)
    assert are_equal(found.weights, expected.weights)
    assert found.records == expected.records


class Trained(NamedTuple):
    weights: dict[str, torch.Tensor]
    records: list[dict[str, float]]
    steps: int


def train_all(cache, data):
    """The program's run, to its end, and how many steps it took."""
    records, totals = [], {}

    def count(iterable, *, desc="", total=None):
        totals[desc] = total
        return iterable

    loop = make_loop(cache, keep="best", progress=count)
    weights = all_weights(loop, fit(loop, data, records=records, epochs=EPOCHS))
    return Trained(weights, records, totals["train"])


def test_the_handler_of_sigterm_is_the_callers_again(tmp_path, tiny):
    before = signal.getsignal(signal.SIGTERM)
    fit(make_loop(tmp_path), tiny.data, epochs=1)
    assert signal.getsignal(signal.SIGTERM) is before
