"""Several processes as one run: the same loss and gradient as one process, each its own images, and one end for all."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.training.finetune.ranks_acts import OBJECTIVES, TOGETHER, build, make_pair
from tests.training.finetune.tiny import fit, make_loop, make_network
from tests.waiting import PATIENCE

from nsh.errors import ConfigError
from nsh.training.finetune.ranks import are_started, check_ranks, count_ranks, this_rank

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("ranks_program.py")
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def start(folder, act, *, launcher=()):
    """The program in a process group of its own, so that nothing of it can outlive the test."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(PROGRAM), str(folder), act]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def finish(process):
    """Its exit status and what it said on stderr."""
    try:
        _, error = process.communicate(timeout=PATIENCE)
        return process.returncode, error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """What SIGTERM leaves of a long run, before its last steps; it has started its ranks itself."""
    folder = tmp_path_factory.mktemp("cut")
    process = start(folder, "cut")
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGTERM)
    status, error = finish(process)
    assert status == 128 + signal.SIGTERM, error
    return folder


@pytest.fixture(scope="module")
def done(cut, tmp_path_factory):
    """What two ranks leave that torchrun has started.

    Of a step of every objective in `step`, of a run in `train`, of a long one in `long`, of the end of `cut` in `rest`.
    """
    folder = tmp_path_factory.mktemp("ranks")
    shutil.copytree(cut, folder / "rest")
    for name in TOGETHER:
        (folder / name).mkdir(exist_ok=True)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    status, error = finish(start(folder, "all", launcher=launcher))
    assert status == 0, error
    return folder


@pytest.fixture(scope="module")
def steps(done):
    """Loss and gradient of every objective, computed by two ranks."""
    return torch.load(done / "step" / "found.pt", weights_only=True)


@pytest.fixture
def folder(done):
    """What a whole run of two ranks leaves."""
    return done / "train"


@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_ranks_with_half_a_batch_are_one_with_the_whole(name, steps, tiny):
    """Loss and gradient of one process, without any of our code between network and objective.

    In float64, where nothing but a mistake can make a difference; in float32 they agree to 1e-5 of the largest entry.
    """
    network, objective = make_network().double(), build(name, tiny)
    rows, first, second = make_pair(tiny)
    terms = objective.tune(rows, network(first), network(second))
    terms["loss"].backward()
    found = steps[name]
    for key, value in terms.items():
        assert float(found["terms"][key]) == pytest.approx(float(value.detach()), rel=1e-9), key
    parameters = {**dict(network.named_parameters("network")), **dict(objective.named_parameters("objective"))}
    assert found["gradients"].keys() == parameters.keys()
    for key, parameter in parameters.items():
        assert (found["gradients"][key] - parameter.grad).abs().max() <= 1e-9, key
    assert max(gradient.abs().max() for gradient in found["gradients"].values()) > 1e-2


class TestRun:
    """Whole runs of two ranks."""

    def test_it_learns_what_one_rank_learns(self, folder, tiny, tmp_path):
        found, records = torch.load(folder / "found.pt", weights_only=True), []
        fit(make_loop(tmp_path, keep="best", held_out=8), tiny.data, records=records, epochs=4, batch=8)
        assert len(found["records"]) == len(records) == 4
        for mine, theirs in zip(found["records"], records, strict=True):
            assert mine == pytest.approx(theirs, rel=1e-3)

    def test_each_rank_reads_its_own_half(self, folder):
        """24 images, 8 held out, batches of 8: an epoch is 2 steps, a validation and a look at all clean images."""
        read = [json.loads((folder / f"read-{rank}.json").read_text()) for rank in range(2)]
        an_epoch = 8 + 4 + 12
        assert [len(rows) for rows in read] == [4 * an_epoch] * 2
        for epoch in range(4):
            parts = [rows[epoch * an_epoch : (epoch + 1) * an_epoch] for rows in read]
            trained, held_out, clean = (
                [set(rows[part]) for rows in parts] for part in (slice(8), slice(8, 12), slice(12, 24))
            )
            assert not trained[0] & trained[1]
            assert len(trained[0] | trained[1]) == 16
            assert not held_out[0] & held_out[1]
            assert not (trained[0] | trained[1]) & (held_out[0] | held_out[1])
            assert clean[0] | clean[1] == set(range(24))

    def test_one_that_dies_ends_the_other(self, tmp_path):
        """Which would otherwise wait for half an hour, as long as gloo does."""
        status, error = finish(start(tmp_path, "die"))
        assert status == 7
        assert "error: rank 0 lost the others, one of which has ended" in error
        assert "Traceback" not in error
        assert not [path for path in tmp_path.glob("pid-*") if is_alive(int(path.read_text()))]
        assert not (tmp_path / "found.pt").exists()

    def test_sigterm_stops_all_and_the_next_run_ends_as_an_uninterrupted_one(self, cut, done):
        """The next one is torchrun's, and so is the uninterrupted one."""
        assert len(list(cut.rglob("last.ckpt"))) == 1
        assert not (cut / "found.pt").exists()
        paths = (done / "long", done / "rest")
        expected, found = (torch.load(path / "found.pt", weights_only=True) for path in paths)
        assert found["records"] == expected["records"]
        assert all(torch.equal(value, found["weights"][name]) for name, value in expected["weights"].items())
        whole, rest = (len((path / "read-0.json").read_text()) for path in paths)
        assert rest < whole / 2  # the last steps alone


def test_a_process_alone_is_rank_0_of_1(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert (this_rank(), count_ranks(), are_started()) == (0, 1, False)


@pytest.mark.parametrize(("count", "device"), [(2, "cuda"), (2, "cuda:0"), (8, "cuda")])
def test_every_rank_needs_a_device_of_its_own(count, device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match=f"found {count} on this machine, compute.device {device}, and torch sees 1"):
        check_ranks(count, batch=8, device=device)


def test_ranks_that_fit_are_accepted(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    check_ranks(2, batch=50, device="cuda")
    check_ranks(1, batch=50, device="cuda:1")
    check_ranks(5, batch=50, device="cpu")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    check_ranks(10, batch=50, device="cuda")
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    with pytest.raises(ConfigError, match="found a batch of 50 for 4 ranks"):
        check_ranks(4, batch=50, device="cpu")
