"""The export stage writes one proved, self-describing file, or nothing."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import yaml

from nsh.backbones.classifiers import MEAN, STD
from nsh.core.codes import unpack
from nsh.core.preprocess import PREPROCESSING
from nsh.core.reference import tally
from nsh.data.split import read_part
from nsh.errors import ConfigError, DataError, ExportError
from nsh.export import joined, parity
from nsh.serving.encoder import Encoder
from nsh.system.files import read_json, sha256_file

ROOT = Path(__file__).parents[2]
BITS = 12
FOLDER = Path(f"models/itq-{BITS}")


def made() -> list[str]:
    return sorted(path.name for path in FOLDER.iterdir())


def test_it_writes_an_encoder_that_says_where_it_comes_from(exported, monkeypatch):
    monkeypatch.chdir(exported)
    assert made() == ["backbone.pt", "encoder.onnx", "head.pt", "parity.json"]
    encoder = Encoder(FOLDER / "encoder.onnx")
    contract, split, embed = (
        encoder.contract,
        read_json(Path("data/split/split.json")),
        read_json(Path("data/embed/embed.json")),
    )
    assert (contract.bits, contract.image_size, contract.resample) == (BITS, 64, "bilinear")
    assert (contract.mean, contract.std) == (MEAN, STD)
    assert (contract.method, contract.backbone, contract.weights) == ("itq", "mobilenet_v2", "file:weights.pt")
    assert contract.weights_sha256 == sha256_file(Path("weights.pt"))
    assert contract.backbone_sha256 == embed["backbone_sha256"] == sha256_file(Path("data/embed/backbone.onnx"))
    assert (contract.data_set, contract.split_sha256) == ("folder", split["sha256"])
    assert len(contract.source_sha256) == 64
    assert contract.libraries == f"torch {torch.__version__.partition('+')[0]}, onnx {onnx.__version__}, " + (
        f"onnxruntime {onnxruntime.__version__}"
    )
    assert contract.preprocessing == PREPROCESSING


def test_the_encoder_says_what_its_codes_look_like_on_queries(exported, monkeypatch):
    """The codes of torch's head and those of production agree, but for bits whose logit is nearly 0."""
    monkeypatch.chdir(exported)
    parts = [read_part(Path("data/split"), name) for name in ("query", "gallery")]
    encoder = Encoder(FOLDER / "encoder.onnx", threads=1)
    queries, gallery = (encoder.encode([Path("images") / name for name in part.ids]) for part in parts)
    reference, counts = encoder.reference, tally(queries, gallery, bits=BITS)
    assert reference.held_out.images == len(queries) == 60
    assert len(reference.anchors) == len(gallery)
    assert np.abs(reference.held_out.ones - counts.ones).max() <= 1
    assert np.mean(unpack(reference.anchors, bits=BITS) != unpack(gallery, bits=BITS)) < 0.001


def test_parity_was_measured_on_real_images_at_four_batch_sizes(exported):
    report = read_json(exported / FOLDER / "parity.json")
    assert (report["images"], report["images_wanted"]) == (256, 256)
    assert report["batch_sizes"] == [1, 2, 7, 64]
    assert report["bit_agreement"] >= 0.999
    assert not set(report) & set(parity.NOISE)


def test_no_path_of_this_machine_is_in_the_outputs(exported):
    for name in ("encoder.onnx", "parity.json"):
        content = (exported / FOLDER / name).read_bytes()
        for word in (str(exported.parent.parent), str(ROOT), "site-packages"):
            assert word.encode() not in content


def test_two_processes_in_two_folders_write_the_same_bytes(exported, project):
    command = [sys.executable, ROOT / "pipeline/export.py", "--method", "itq", "--bits", str(BITS)]
    subprocess.run(command, check=True, capture_output=True)
    assert project != exported
    for name in ("encoder.onnx", "parity.json"):
        assert (project / FOLDER / name).read_bytes() == (exported / FOLDER / name).read_bytes()


def test_an_encoder_that_is_not_the_network_is_not_written(project, run, monkeypatch):
    """The gate sees a head that was changed after it was exported."""
    join = joined.join_head

    def join_another(backbone_model, head, contract):
        other = copy.deepcopy(head)
        with torch.no_grad():
            next(iter(other.parameters())).mul_(-1)
        return join(backbone_model, other, contract)

    monkeypatch.setattr(joined, "join_head", join_another)
    with pytest.raises(ExportError, match="nothing was written"):
        run("export")
    assert made() == ["backbone.pt", "head.pt"]


def test_another_backbone_graph_than_the_embeddings_is_refused(project, run):
    header = json.loads(Path("data/embed/embed.json").read_text())
    Path("data/embed/embed.json").write_text(json.dumps({**header, "backbone_sha256": "0" * 64}))
    with pytest.raises(ExportError, match="not the graph that made the embeddings"):
        run("export")
    assert made() == ["backbone.pt", "head.pt"]


def test_embeddings_by_another_version_of_the_preprocessing_are_refused(project, run):
    header = json.loads(Path("data/embed/embed.json").read_text())
    Path("data/embed/embed.json").write_text(json.dumps({**header, "preprocessing": PREPROCESSING - 1}))
    with pytest.raises(DataError, match="made with another preprocessing than is here now: run `dvc repro embed`"):
        run("export")
    assert made() == ["backbone.pt", "head.pt"]


def test_a_head_of_other_length_is_refused(project, run):
    Path("models/itq-16").mkdir()
    (FOLDER / "head.pt").rename("models/itq-16/head.pt")
    with pytest.raises(ExportError, match="no head of itq with 16 bits on embeddings of length 1280"):
        run("export", bits=16)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04"])
def test_a_garbled_head_is_refused(project, run, content):
    (FOLDER / "head.pt").write_bytes(content)
    with pytest.raises(ExportError, match="train again"):
        run("export")


def test_a_missing_head_and_an_unknown_method_are_one_sentence(project, run):
    (FOLDER / "head.pt").unlink()
    with pytest.raises(ExportError, match=f"dvc repro train@itq-{BITS}"):
        run("export")
    with pytest.raises(ConfigError, match="found method 'none', allowed are"):
        run("export", method="none")


def choose(precision: str, **limits: float) -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["export"] |= {"precision": precision, "calibration": 32, **limits}
    Path("params.yaml").write_text(yaml.safe_dump(params))


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_smaller_encoder_says_what_it_costs_and_that_its_backbone_is_another(project, run, precision, capsys):
    choose(precision, warn_bit_flips=0.0, max_mAP_drop=1.0)
    run("export")
    report = read_json(FOLDER / "parity.json")
    cost = report["quantisation"]
    assert (report["bit_agreement"], cost["precision"], cost["images"]) == (1.0, precision, 260)
    assert 0 < cost["bit_flips"] < 0.3
    assert cost["past_limits"] == []
    assert len(cost["warnings"]) == 1
    assert cost.get("calibration") == (32 if precision == "int8" else None)
    encoder = Encoder(FOLDER / "encoder.onnx")
    assert encoder.reference.held_out.images == 60  # of its own codes, made from images
    contract = encoder.contract
    assert contract.backbone == f"mobilenet_v2 ({precision})"
    assert contract.backbone_sha256 != read_json(Path("data/embed/embed.json"))["backbone_sha256"]
    assert "speed_at_batch_1" in capsys.readouterr().out
    assert "speed" not in (FOLDER / "parity.json").read_text()
    assert read_json(Path(f".cache/nsh/export/itq-{BITS}-{precision}.json"))["speed_at_batch_32"] > 0
    run("encode")  # from images, not from stored embeddings
    for part in ("query", "gallery"):
        assert read_json(Path(f"codes/itq-{BITS}/{part}/header.json"))["notes"]["route"] == "images"
