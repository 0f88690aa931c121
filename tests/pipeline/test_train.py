"""Stage train on small embeddings: what it writes, that it writes the same again, and what it refuses."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from tests.commands import run_script
from tests.waiting import PATIENCE

from nsh.errors import CodesError, ConfigError, DataError, NonFiniteLoss
from nsh.methods import METHODS, create
from nsh.system.files import read_json
from nsh.training import fit
from nsh.training.state import TrainingState

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "pipeline/train.py"
NSH = {"epochs": 2, "batch": 10, "d_z": 8}
ITQ = {"iterations": 3}


@pytest.fixture
def embeddings(tmp_path, monkeypatch, mlflow_database):
    """A working folder with params.yaml, data/embed and an empty MLflow database, no more."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(mlflow_database, "mlflow.db")
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["methods"]["nsh"].update(NSH)
    params["methods"]["itq"].update(ITQ)
    params["compute"].update(device="cpu", threads=1)
    Path("params.yaml").write_text(yaml.safe_dump(params))
    generator = np.random.default_rng(0)
    features = generator.normal(size=(40, 12)).astype(np.float32)
    views = (features[:, None] + 0.3 * generator.normal(size=(40, 2, 12))).astype(np.float16)
    Path("data/embed").mkdir(parents=True)
    np.save("data/embed/train.npy", features)
    np.save("data/embed/views.npy", views)
    return tmp_path


def _interrupt(path, content):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("method", "rounds"), [("nsh", 2), ("itq", 3)])
def test_head_and_history_are_written_and_nothing_else(embeddings, run, method, rounds):
    run("train", method=method, bits=8)
    made = sorted(path.name for path in Path(f"models/{method}-8").iterdir())
    assert made == ["backbone.pt", "head.pt", "history.json"]
    assert torch.load(f"models/{method}-8/backbone.pt", weights_only=True) == {}
    assert list(Path(".cache").rglob("*.ckpt")) == []
    history = read_json(Path(f"models/{method}-8/history.json"))
    assert [record["epoch"] for record in history] == list(range(1, rounds + 1))
    assert all(value == float(f"{value:.6g}") for record in history for value in record.values())
    parameters = yaml.safe_load(Path("params.yaml").read_text())["methods"][method]
    head = create(method, parameters).head(12, 8)
    head.load_state_dict(torch.load(f"models/{method}-8/head.pt", weights_only=True))
    logits = head(torch.from_numpy(np.load("data/embed/train.npy")))
    assert logits.shape == (40, 8)
    assert 0 < float((logits > 0).float().mean()) < 1


def test_another_process_writes_the_same_bytes(embeddings, run):
    def contents():
        return [Path(f"models/nsh-8/{name}").read_bytes() for name in ("head.pt", "history.json")]

    run("train", method="nsh", bits=8)
    here = contents()
    command = [sys.executable, SCRIPT, "--method", "nsh", "--bits", "8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert "models/nsh-8: loss" in done.stdout
    assert contents() == here


def test_a_process_that_dies_before_its_head_is_written_has_not_trained_in_vain(embeddings, run, monkeypatch):
    steps = []
    with monkeypatch.context() as patch:
        patch.setattr(fit, "write_bytes", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            run("train", method="nsh", bits=8)
    assert not Path("models/nsh-8/head.pt").exists()
    monkeypatch.setattr(TrainingState, "_step", lambda self, pair, step: steps.append(step))
    run("train", method="nsh", bits=8)
    assert steps == []
    assert Path("models/nsh-8/head.pt").exists()
    assert list(Path(".cache").rglob("*.ckpt")) == []


def test_a_mistake_ends_with_one_sentence_and_exit_code_two(embeddings):
    done = run_script(SCRIPT, "--method", "nhs", "--bits", 8)
    assert done.returncode == 2
    assert done.stderr == f"error: found method 'nhs', allowed are {', '.join(METHODS)}\n"
    assert not Path("models").exists()


def test_a_length_that_is_none_is_refused(embeddings, run):
    for bits in (0, 513):
        with pytest.raises(CodesError, match=f"a code cannot have {bits} bits"):
            run("train", method="itq", bits=bits)


def test_a_parameter_out_of_range_is_refused_by_key(embeddings, run):
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["methods"]["nsh"]["m"] = 10
    Path("params.yaml").write_text(yaml.safe_dump(params))
    with pytest.raises(ConfigError, match=r"methods\.nsh.*m = 10 positives"):
        run("train", method="nsh", bits=8)


def test_missing_embeddings_are_named(embeddings, run):
    Path("data/embed/views.npy").unlink()
    with pytest.raises(DataError, match=r"data/embed/views\.npy is not here: run `dvc repro embed` first"):
        run("train", method="itq", bits=8)


def test_a_training_that_fails_writes_nothing(embeddings, run):
    views = np.load("data/embed/views.npy")
    views[3] = np.nan
    np.save("data/embed/views.npy", views)
    with pytest.raises(NonFiniteLoss, match="epoch 1"):
        run("train", method="nsh", bits=8)
    assert not Path("models").exists()
