"""The loop on small data: that it learns, resumes bit for bit, reports, and refuses what it cannot do."""

import math
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from nsh.core.codes import binarize, pack
from nsh.core.metrics import evaluate
from nsh.errors import NonFiniteLoss, TrainingError
from nsh.methods import TrainingData, create
from nsh.objectives.heads.linear import to_bytes
from nsh.training import loop as loop_module
from nsh.training.loop import CachedViewLoop
from nsh.training.state import TrainingState

ROOT = Path(__file__).parents[2]
PARAMETERS = {
    "epochs": 3,
    "batch": 20,
    "learning_rate": 1e-3,
    "m": 2,
    "tau_s": 0.1,
    "tau_c": 0.1,
    "d_z": 32,
    "similarity": "cosine",
    "quantisation": 1.0,
    "quantiser": "norm",
    "hidden": 0,
    "symmetric": False,
    "init": "random",
    "ablation": "none",
}


def draw_clusters(count=100, dim=24, classes=5, noise=1.0, seed=0):
    """Features around class centres, three noisy views of each, and the classes."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, dim))
    labels = np.arange(count) % classes
    features = centres[labels] + noise * generator.normal(size=(count, dim))
    views = features[:, None] + 0.4 * generator.normal(size=(count, 3, dim))
    return TrainingData(features.astype(np.float32), views.astype(np.float16)), np.eye(classes, dtype=bool)[labels]


def train(cache, data, *, report=lambda record: None, bits=16, seed=0, progress=None, **changes):
    """As the train stage does, which clears the loop's state when it has written the head."""
    loop = CachedViewLoop(cache=cache, threads=1, **({"progress": progress} if progress else {}))
    head = create("nsh", PARAMETERS | changes).fit(data, bits=bits, seed=seed, report=report, loop=loop)
    loop.clear()
    return head


def mean_average_precision(head, data, labels):
    with torch.no_grad():
        codes = pack(binarize(head(torch.from_numpy(data.features)).numpy()))
    return evaluate(codes[:50], codes[50:], labels[:50], labels[50:], bits=head.bits, k=50).metrics["mAP_at_50"]


def test_nsh_learns_on_clusters(tmp_path):
    """A property, not a result: the loss falls, and retrieval is far better than with the heads it started from."""
    data, labels = draw_clusters(count=300)
    records = []
    before = create("nsh", PARAMETERS).objective(data, bits=16, seed=0).head
    after = train(tmp_path, data, report=records.append, epochs=20, learning_rate=3e-3)
    assert records[-1]["loss"] < 0.8 * records[0]["loss"]
    assert mean_average_precision(after, data, labels) > mean_average_precision(before, data, labels) + 0.2


def test_every_epoch_is_reported_with_its_means(tmp_path):
    data, _ = draw_clusters()
    records = []
    head = train(tmp_path, data, report=records.append)
    assert [record["epoch"] for record in records] == [1, 2, 3]
    for record in records:
        assert list(record) == ["epoch", "loss", "sorted_nce", "quantisation", "bit_balance"]
        assert record["loss"] == pytest.approx(record["sorted_nce"] + record["quantisation"], rel=1e-5)
    share = (head(torch.from_numpy(data.features)) > 0).float().mean(0)
    assert records[-1]["bit_balance"] == pytest.approx(1 - (2 * share - 1).abs().mean().item(), abs=1e-6)


def test_bits_are_counted_on_images_spread_over_all_where_they_are_many(tmp_path, monkeypatch):
    monkeypatch.setattr(loop_module, "WATCHED", 30)
    data, _ = draw_clusters()
    records = []
    head = train(tmp_path, data, report=records.append)
    share = (head(torch.from_numpy(data.features[::4])) > 0).float().mean(0)  # 25 of 100
    assert records[-1]["bit_balance"] == pytest.approx(1 - (2 * share - 1).abs().mean().item(), abs=1e-6)


def test_same_seed_same_weights_other_seed_other_weights(tmp_path):
    data, _ = draw_clusters()
    heads = []
    for seed in (1, 1, 2):
        torch.rand(7)  # the global generator plays no part
        heads.append(train(tmp_path, data, seed=seed).linear.weight)
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_the_caller_keeps_its_torch_settings(tmp_path):
    data, _ = draw_clusters()
    threads = torch.get_num_threads()
    train(tmp_path, data, epochs=1)
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


class StoppedError(Exception):
    """Raised by a report to break off a run between two epochs."""


def stop_after(epoch):
    def report(record):
        if record["epoch"] == epoch:
            raise StoppedError

    return report


def test_a_run_stopped_between_epochs_goes_on_as_if_nothing_had_happened(tmp_path):
    data, _ = draw_clusters()
    expected_records, records = [], []
    expected = train(tmp_path / "whole", data, report=expected_records.append)
    with pytest.raises(StoppedError):
        train(tmp_path / "broken", data, report=stop_after(2))
    assert len(list((tmp_path / "broken").rglob("*.ckpt"))) == 1
    actual = train(tmp_path / "broken", data, report=records.append)
    assert records == expected_records
    assert torch.equal(actual.linear.weight, expected.linear.weight)
    assert list((tmp_path / "broken").rglob("*")) == []


@pytest.mark.parametrize("content", [b"", b"no checkpoint\n" * 100])
def test_a_damaged_checkpoint_is_refused_with_what_to_do(tmp_path, content):
    data, _ = draw_clusters()
    with pytest.raises(StoppedError):
        train(tmp_path, data, report=stop_after(2))
    (path,) = tmp_path.rglob("*.ckpt")
    path.write_bytes(content)
    with pytest.raises(TrainingError, match=rf"^{path} is damaged \(\w+\): delete {path.parent} to begin again$"):
        train(tmp_path, data)


def test_a_finished_run_that_was_not_cleared_trains_no_more_and_gives_the_same_again(tmp_path, monkeypatch):
    """The process may die between the last step and the file that holds its head."""
    data, _ = draw_clusters()
    runs, loops = [], [CachedViewLoop(cache=tmp_path, threads=1) for _ in range(2)]
    for loop in loops:
        records = []
        head = create("nsh", PARAMETERS).fit(data, bits=16, seed=0, report=records.append, loop=loop)
        runs.append((to_bytes(head), records))
        monkeypatch.setattr(TrainingState, "_step", None)
    assert runs[0] == runs[1]
    loops[1].clear()
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("change", [{"tau_c": 0.2}, {"seed": 5}, {"bits": 8}, {"epochs": 4}])
def test_another_run_never_goes_on_from_this_ones_checkpoint(tmp_path, change):
    data, _ = draw_clusters()
    with pytest.raises(StoppedError):
        train(tmp_path, data, report=stop_after(1))
    expected = train(tmp_path / "fresh", data, **change)
    assert torch.equal(train(tmp_path, data, **change).linear.weight, expected.linear.weight)
    assert len(list(tmp_path.rglob("*.ckpt"))) == 1


def test_other_data_never_goes_on_from_this_ones_checkpoint(tmp_path):
    with pytest.raises(StoppedError):
        train(tmp_path, draw_clusters(seed=0)[0], report=stop_after(1))
    other, _ = draw_clusters(seed=1)
    expected = train(tmp_path / "fresh", other)
    assert torch.equal(train(tmp_path, other).linear.weight, expected.linear.weight)


PROGRAM = """
    import sys
    from pathlib import Path

    import numpy as np

    from nsh.system.command import run_command
    from nsh.methods import TrainingData, create
    from nsh.training.loop import CachedViewLoop
    from tests.waiting import await_sigterm

    def show(iterable, *, desc="", total=None):
        for step, item in enumerate(iterable, start=1):
            if step == 2 * 40 + 5:
                await_sigterm("here")
            yield item

    def main():
        folder = Path(sys.argv[1])
        data = TrainingData(np.load(folder / "features.npy"), np.load(folder / "views.npy", mmap_mode="r"))
        loop = CachedViewLoop(cache=folder / "broken", threads=1, progress=show)
        create("nsh", PARAMETERS).fit(data, bits=16, seed=0, report=lambda record: None, loop=loop)

    run_command(main)
""".replace("PARAMETERS", repr(PARAMETERS | {"epochs": 5}))


def test_sigterm_in_epoch_three_and_a_second_run_give_the_weights_of_an_uninterrupted_one(tmp_path):
    """The second run is this process's."""
    data, _ = draw_clusters(count=800)
    np.save(tmp_path / "features.npy", data.features)
    np.save(tmp_path / "views.npy", data.views)
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""
    assert process.returncode == 128 + signal.SIGTERM
    assert len(list((tmp_path / "broken").rglob("*.ckpt"))) == 1
    steps = []

    def count(iterable, *, desc="", total=None):
        return (steps.append(item) or item for item in iterable)

    second = train(tmp_path / "broken", data, epochs=5, progress=count)
    assert len(steps) == 3 * 40
    assert list((tmp_path / "broken").rglob("*")) == []
    assert to_bytes(second) == to_bytes(train(tmp_path / "whole", data, epochs=5))


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_a_loss_that_is_not_finite_names_epoch_step_and_images(tmp_path):
    data, _ = draw_clusters(count=40)
    data.views[7] = np.inf
    with pytest.raises(NonFiniteLoss, match=r"nan in epoch 1, step [12], on the training images in rows \[.*\b7\b.*\]"):
        train(tmp_path, data)


def test_fewer_images_than_a_batch_is_said_clearly(tmp_path):
    data, _ = draw_clusters(count=19)
    with pytest.raises(TrainingError, match="found 19 training images, a batch needs 20"):
        train(tmp_path, data)


def test_exactly_one_batch_of_images_is_enough(tmp_path):
    records = []
    train(tmp_path, draw_clusters(count=20)[0], report=records.append)
    assert len(records) == 3


def test_one_view_is_too_few(tmp_path):
    data, _ = draw_clusters()
    with pytest.raises(TrainingError, match="found 1 view of every training image"):
        train(tmp_path, TrainingData(data.features, data.views[:, :1]))


def test_duplicated_images_and_constant_features_train_to_finite_weights(tmp_path):
    features = np.ones((40, 6), dtype=np.float32)
    features[20:, 0] = 2
    data = TrainingData(features, np.repeat(features[:, None], 2, axis=1).astype(np.float16))
    records = []
    head = train(tmp_path, data, report=records.append)
    assert bool(head.linear.weight.isfinite().all())
    assert all(math.isfinite(value) for record in records for value in record.values())


def test_progress_shows_every_step_and_ends(tmp_path):
    seen = []

    def progress(iterable, *, desc="", total=None):
        for item in iterable:
            yield item
            seen.append(item)

    train(tmp_path, draw_clusters()[0], progress=progress)
    assert len(seen) == 3 * 5
