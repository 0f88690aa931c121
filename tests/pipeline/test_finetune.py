"""From images to metrics with a backbone that learns: its own encoder, encoded from images, and what is refused."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from mlflow import MlflowClient
from tests.commands import run_nsh
from tests.waiting import PATIENCE

from nsh.backbones import networks
from nsh.backbones.pixels import ImageToEmbedding
from nsh.core.preprocess import load_image, to_input
from nsh.data.split import read_part
from nsh.errors import ConfigError, DataError, TrainingError
from nsh.methods import create
from nsh.project.embeddings import Embeddings
from nsh.serving.encoder import Encoder
from nsh.system.files import read_json, sha256_file, write_json

ROOT = Path(__file__).parents[2]
NSH = {"epochs": 2, "batch": 10, "d_z": 8, "m": 2}
FINETUNE = {"learning_rate": 1e-4, "held_out": 20, "keep": "best"}
BITS = 12
FOLDER = Path(f"models/nsh-{BITS}")


@pytest.fixture
def tuning(project):
    """The project, about to fine-tune."""
    change()
    return project


def change(*, nsh=None, **finetune):
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["methods"]["nsh"].update(NSH | (nsh or {}))
    params["train"]["mode"] = "finetune"
    params["train"]["finetune"].update(FINETUNE | finetune)
    params["evaluate"]["k"] = 20
    Path("params.yaml").write_text(yaml.safe_dump(params))


def torch_logits(images):
    """What the trained network makes of images, put together from the published weights and the stage's files."""
    backbone = networks.build("mobilenet_v2", weights=Path("data/raw/weights/backbone.pt"), image_size=64)
    changes = torch.load(FOLDER / "backbone.pt", weights_only=True)
    backbone.network.load_state_dict({**backbone.network.state_dict(), **changes})
    head = create("nsh", yaml.safe_load(Path("params.yaml").read_text())["methods"]["nsh"]).head(1280, BITS)
    head.load_state_dict(torch.load(FOLDER / "head.pt", weights_only=True))
    with torch.no_grad():
        return head.eval()(ImageToEmbedding(backbone)(torch.from_numpy(images))).numpy()


def test_the_whole_line_runs_on_the_tuned_backbone(tuning, run, capsys):
    run("train", method="nsh")
    assert sorted(path.name for path in FOLDER.iterdir()) == ["backbone.pt", "head.pt", "history.json"]
    history = read_json(FOLDER / "history.json")
    assert [record["epoch"] for record in history] == [1, 2]
    assert {"loss", "held_out_loss", "bit_balance"} <= history[0].keys()
    changes = torch.load(FOLDER / "backbone.pt", weights_only=True)
    assert "features.0.0.weight" in changes
    assert not [name for name in changes if "running" in name]

    run("export", method="nsh")
    encoder, embed = Encoder(FOLDER / "encoder.onnx"), read_json(Path("data/embed/embed.json"))
    assert encoder.contract.backbone == "mobilenet_v2 (fine-tuned)"
    assert encoder.contract.backbone_sha256 != embed["backbone_sha256"]
    assert encoder.contract.weights_sha256 == embed["weights_sha256"]

    run("encode", method="nsh")
    query = read_part(Path("data/split"), "query")
    assert read_json(Path(f"codes/nsh-{BITS}/query/header.json"))["notes"]["route"] == "images"
    images = [load_image(Path("images") / name) for name in query.ids]
    expected = torch_logits(np.stack([to_input(image, size=64, resample="bilinear") for image in images]))
    clear = np.abs(expected) > 1e-3
    shipped = np.unpackbits(encoder.encode(images), axis=1)[:, :BITS]
    assert clear.mean() > 0.9
    assert np.array_equal(shipped[clear], (expected > 0)[clear])

    run("evaluate", method="nsh")
    assert 0 < read_json(Path(f"metrics/nsh-{BITS}.json"))["mAP_at_20"] <= 1


def test_the_upper_part_learns_from_activations_and_ships_with_the_lower_part(tuning, run, capsys):
    """The encoder's bits are those of the published lower part, the tuned upper part and the head, from the pixels."""
    change(nsh={"epochs": 1}, **{"from": "features.17"})
    run("train", method="nsh")
    folder = r"\.cache/nsh/train/activations/[0-9a-f]{16}"
    size = r"\[160, 2, 2\]: 1,280 bytes a view in float16, 0\.4 MB for 2 views of 80 images, in "
    assert re.search(f"features.17 learns from activations of shape {size}{folder}\n", capsys.readouterr().out)
    changes = torch.load(FOLDER / "backbone.pt", weights_only=True)
    assert {name.split(".")[1] for name in changes} == {"17", "18"}
    assert not [name for name in changes if "running" in name]
    run("export", method="nsh")
    ids = read_part(Path("data/split"), "query").ids[:16]
    images = [load_image(Path("images") / name) for name in ids]
    expected = torch_logits(np.stack([to_input(image, size=64, resample="bilinear") for image in images]))
    clear = np.abs(expected) > 1e-3
    shipped = np.unpackbits(Encoder(FOLDER / "encoder.onnx").encode(images), axis=1)[:, :BITS]
    assert clear.mean() > 0.9
    assert np.array_equal(shipped[clear], (expected > 0)[clear])


def test_the_tuned_backbone_is_a_file_of_weights_to_start_from(tuning, run):
    """The embeddings that are made with it are those that the tuned network gives."""
    run("train", method="nsh")
    named = ["weights", "--method", "nsh", "--bits", BITS, "--out", "tuned.pt"]
    assert run_nsh(*named).stdout.startswith(f"tuned.pt: the backbone of nsh-{BITS}; set backbone.weights to it")
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["backbone"]["weights"] = "tuned.pt"
    params["train"]["mode"] = "frozen"
    Path("params.yaml").write_text(yaml.safe_dump(params))
    changes = torch.load(FOLDER / "backbone.pt", weights_only=True)
    for stage in ("download", "split", "embed"):
        run(stage)
    assert read_json(Path("data/embed/embed.json"))["weights"] == "file:tuned.pt"
    started = networks.build("mobilenet_v2", weights=Path("data/raw/weights/backbone.pt"), image_size=64)
    assert all(torch.equal(started.network.state_dict()[name], value) for name, value in changes.items())
    ids = read_part(Path("data/split"), "gallery").ids[:8]
    images = np.stack([to_input(load_image(Path("images") / name), size=64, resample="bilinear") for name in ids])
    with torch.no_grad():
        expected = ImageToEmbedding(started)(torch.from_numpy(images)).numpy()
    found = Embeddings(Path("data/embed")).read("gallery")[:8]
    np.testing.assert_allclose(found, expected, atol=1e-3)
    again = run_nsh(*named)
    assert (again.returncode, again.stderr) == (2, "error: --out: found tuned.pt, which exists: name another file\n")


def test_a_frozen_backbone_has_no_tuned_weights(tuning, run):
    run("train")
    refused = run_nsh("weights", "--method", "itq", "--bits", BITS, "--out", "tuned.pt")
    assert refused.returncode == 2
    assert f"models/itq-{BITS}/backbone.pt changes nothing: set train.mode to finetune" in refused.stderr
    assert not Path("tuned.pt").exists()


def test_a_block_that_the_network_does_not_have_is_refused_with_those_it_has(tuning, run):
    change(**{"from": "features.19"})
    with pytest.raises(
        ConfigError, match=r"found features.19, allowed for mobilenet_v2 are features.1, .*features.18, or"
    ):
        run("train", method="nsh")


def test_a_method_in_closed_form_leaves_the_backbone_and_shares_its_graph(tuning, run):
    run("train")
    folder = Path(f"models/itq-{BITS}")
    assert torch.load(folder / "backbone.pt", weights_only=True) == {}
    run("export")
    contract = Encoder(folder / "encoder.onnx").contract
    assert contract.backbone == "mobilenet_v2"
    assert contract.backbone_sha256 == sha256_file(Path("data/embed/backbone.onnx"))


@pytest.mark.parametrize(("key", "value"), [("split_sha256", "0" * 64), ("image_size", 96), ("weights_sha256", "1")])
def test_embeddings_of_other_images_or_weights_are_refused(tuning, run, key, value):
    header = read_json(Path("data/embed/embed.json"))
    write_json(Path("data/embed/embed.json"), header | {key: value})
    with pytest.raises(DataError, match=f"data/embed was made with another {key} than is here now"):
        run("train", method="nsh")


def test_fewer_images_than_a_batch_beside_the_held_out_ones_are_said_clearly(tuning, run):
    change(held_out=71)
    with pytest.raises(TrainingError, match="found 80 training images, 71 of them held out, a batch needs 10"):
        run("train", method="nsh")


def test_cuda_asked_for_and_absent_is_said_before_anything_is_read(tuning, run, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["compute"]["device"] = "cuda:1"
    Path("params.yaml").write_text(yaml.safe_dump(params))
    with pytest.raises(ConfigError, match="found cuda:1, torch sees 0 CUDA devices"):
        run("train", method="nsh")


def test_a_batch_that_ranks_cannot_share_is_refused_before_they_are_started(tuning, run):
    change(ranks=3)
    with pytest.raises(ConfigError, match="found a batch of 10 for 3 ranks"):
        run("train", method="nsh")


def run_ranks():
    """The stage as a user starts it, with two ranks: how it ended, and the runs in MLflow.

    That it ends by itself within `PATIENCE` is part of it: gloo would wait for a lost rank for half an hour.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment["PYTHONPATH"] = f"{ROOT / 'src'}"
    command = [sys.executable, ROOT / "pipeline/train.py", "--method", "nsh", "--bits", str(BITS)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            said, errors = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with its ranks
    store = MlflowClient(f"sqlite:///{Path('mlflow.db').resolve()}")
    done = subprocess.CompletedProcess(command, process.returncode, said, errors)
    return done, store.search_runs([store.get_experiment_by_name("folder").experiment_id])


def test_two_ranks_write_once_and_are_one_run(tuning, run):
    """Their losses are one rank's, at rates so small that Adam cannot make much of how sums are rounded."""
    still = {"nsh": {"epochs": 1, "learning_rate": 1e-9}, "learning_rate": 1e-9}
    change(**still)
    run("train", method="nsh")
    alone = read_json(FOLDER / "history.json")
    change(**still, ranks=2)
    done, runs = run_ranks()
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"models/nsh-{BITS}: loss") == 1
    assert [run.info.status for run in runs] == ["FINISHED", "FINISHED"]
    together = read_json(FOLDER / "history.json")
    for mine, theirs in zip(together, alone, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4)


def test_a_rank_that_fails_ends_the_other_and_the_run_is_failed(tuning):
    """Of a training image that cannot be read any more, one rank alone knows."""
    change(ranks=2, held_out=0)
    broken = Path("images") / read_part(Path("data/split"), "train").ids[7]
    broken.write_bytes(b"")
    done, (only,) = run_ranks()
    assert done.returncode == 2
    assert "has changed since the download stage" in done.stderr
    assert "Traceback" not in done.stderr
    assert only.info.status == "FAILED"
    assert not FOLDER.exists()
