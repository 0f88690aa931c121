"""A finished project in a temporary folder: real files in every place that tracking reads."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from matplotlib.figure import Figure
from onnx import TensorProto, helper, numpy_helper

from nsh.config import Params, read_params
from nsh.core.contract import METADATA_KEY, EncoderContract
from nsh.core.identity import identity_of
from nsh.system.files import read_json, write_json, write_text
from nsh.tracking import recording

SIZE = 8
PARAMS = """
matrix: {methods: [nsh, itq], bits: [16, 32]}
dataset: {name: folder, root: data/local, exclude: [], labels: folder}
split: {train: 6, gallery: 9, query: 3, draw: uniform, seed: 0, max_bad_share: 0.01}
backbone: {name: mobilenet_v2, weights: none, image_size: 32, resample: bilinear}
embed: {views: 2, seed: 0, batch: 4}
compute: {device: cpu, threads: 1}
train:
  {mode: frozen, seed: 0, threads: 1, finetune: {from: null, learning_rate: 1.0e-5, batch_norm: frozen,
   precision: fp32, channels_last: true, compile: false, clip: null, average: 0.0, held_out: 0, patience: null,
   keep: last, checkpoint_minutes: 10, ranks: 1}}
methods:
  nsh:
    {epochs: 2, batch: 4, learning_rate: 3e-4, m: 1, tau_s: 0.1, tau_c: 0.1, d_z: 8, similarity: cosine,
     quantisation: 1.0, quantiser: norm, hidden: 0, symmetric: false, init: random, ablation: none}
  itq: {iterations: 3}
  $others
export: {precision: fp32, calibration: 4, max_mAP_drop: 0.01, warn_bit_flips: 0.05}
encode: {batch: 4}
evaluate: {k: 5}
registry: {trial: false}
"""
OURS = yaml.safe_load((Path(__file__).parents[2] / "params.yaml").read_text())
"""The blocks and methods that are not above are as the project has them: params.yaml must name them all."""


@pytest.fixture
def real_pictures() -> None:
    """A test that asks for it records the pictures of a pair as they are."""


@pytest.fixture(autouse=True)
def small_pictures(request, monkeypatch) -> None:
    """Small pictures in every test that does not ask for real ones."""
    if "real_pictures" not in request.fixturenames:
        draw_small(monkeypatch)


def draw_small(patch: pytest.MonkeyPatch) -> None:
    """Make an empty picture in the place of a pair's four, which take longer than the rest of a record."""
    patch.setattr(recording, "_draw_pair", lambda results: {"precision_recall.png": Figure(figsize=(1, 1))})


@pytest.fixture
def project(tmp_path, mlflow_database) -> Path:
    return make_project(tmp_path / "project", mlflow_database)


def make_project(folder: Path, database: Path) -> Path:
    """A project with parameters and a store, and nothing trained."""
    folder.mkdir()
    shutil.copy(database, folder / "mlflow.db")
    methods = [f"{name}: {json.dumps(block)}" for name, block in OURS["methods"].items() if name not in ("nsh", "itq")]
    blocks = [f"{name}: {json.dumps(block)}" for name, block in OURS.items() if f"\n{name}:" not in PARAMS]
    write_text(folder / "params.yaml", "\n".join([PARAMS.replace("$others", "\n  ".join(methods)), *blocks, ""]))
    write_json(
        folder / "data/split/split.json",
        {
            "data_set": "folder",
            "classes": ["cat", "dog"],
            "seed": 0,
            "counts": {"train": 6, "query": 3, "gallery": 9},
            "unreadable": 0,
            "duplicates_dropped": 0,
            "sha256": "5" * 64,
        },
    )
    return folder


@pytest.fixture
def params(project) -> Params:
    return read_params(project / "params.yaml")


@pytest.fixture
def finish(project) -> Callable[..., None]:
    return partial(write_results, project)


def write_results(
    project: Path,
    method: str = "nsh",
    bits: int = 16,
    *,
    seed: int = 0,
    source: str = "2" * 64,
    split: str = "5" * 64,
    **metrics: float | None,
) -> None:
    """Write what train to evaluate leave for one pair; None takes a metric away.

    `seed` makes another network, `source` another file of it, `split` its digest another split.
    """
    key = f"{method}-{bits}"
    model, curves = project / "models" / key, project / "metrics" / "curves" / key
    model.mkdir(parents=True, exist_ok=True)
    write_text(model / "head.pt", f"head {key} {seed}")
    for place in (model, curves):
        write_json(place / "history.json", [{"epoch": 1, "loss": 2.5}, {"epoch": 2, "loss": 1.5}])
    contract = make_contract(method, bits, source=source)
    header = project / "data/split/split.json"
    write_json(header, read_json(header) | {"sha256": split})
    encoder = make_encoder(contract, seed=seed).SerializeToString()
    (model / "encoder.onnx").write_bytes(encoder)
    write_json(model / "parity.json", {"images": 9, "bits": bits, "bit_agreement": 1.0, "flipped_bits": 0})
    figures = {"mAP_at_5": 0.5, "P_at_5": 0.4, "P_at_H2": 0.3, "empty_ball_share": 0.25} | metrics
    figures = {name: value for name, value in figures.items() if value is not None}
    protocol = {"k": 5, "split_sha256": split, "encoder_identity": identity_of(encoder, contract)}
    write_text(project / "metrics" / f"{key}.json", json.dumps(figures | {"protocol": protocol}))
    write_text(curves / "precision_at_k.csv", "k,precision,recall\n1,0.75,0.1\n2,0.5,0.2\n3,0.25,0.3\n")
    write_text(curves / "pr_ranking.csv", "rank,recall,precision\n1,0.1,0.75\n9,1,0.25\n")
    write_text(curves / "pr_lookup.csv", "radius,recall,precision,empty_share\n0,0.1,0.75,0.5\n")
    mean = figures.get("mAP_at_5")
    rows = [] if mean is None else [mean + 0.1, mean - 0.1]
    write_text(curves / "average_precision.csv", "\n".join(["average_precision", *map(str, rows)]) + "\n")


@pytest.fixture
def repository(project) -> Path:
    """The project as a git repository with one commit."""
    for command in (
        ["git", "init", "-q"],
        ["git", "add", "params.yaml"],
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "start"],
    ):
        subprocess.run(command, cwd=project, check=True)
    return project


def make_encoder(contract: EncoderContract, *, seed: int) -> onnx.ModelProto:
    """A real encoder graph by the contract: mean colour, a random projection, bits packed in the graph."""
    bits = contract.bits
    weights = np.random.default_rng(seed).standard_normal((3, bits), dtype=np.float32)
    places = np.array([128, 64, 32, 16, 8, 4, 2, 1], dtype=np.float32)
    constants = {
        "axes": np.array([1, 2], dtype=np.int64),
        "middle": np.float32(127.5),
        "weights": weights,
        "zero": np.float32(0),
        "bytes": np.array([-1, bits // 8, 8], dtype=np.int64),
        "places": places,
    }
    nodes = [
        helper.make_node("Cast", ["image"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["pixels", "axes"], ["mean"], keepdims=0),
        helper.make_node("Sub", ["mean", "middle"], ["embedding"]),
        helper.make_node("MatMul", ["embedding", "weights"], ["logit"]),
        helper.make_node("Greater", ["logit", "zero"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["ones"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["ones", "bytes"], ["groups"]),
        helper.make_node("MatMul", ["groups", "places"], ["values"]),
        helper.make_node("Cast", ["values"], ["code"], to=TensorProto.UINT8),
    ]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", SIZE, SIZE, 3])],
        [
            helper.make_tensor_value_info("code", TensorProto.UINT8, ["n", bits // 8]),
            helper.make_tensor_value_info("logit", TensorProto.FLOAT, ["n", bits]),
            helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", 3]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    identified = replace(contract, identity=identity_of(model.SerializeToString(), contract))
    helper.set_model_props(model, {METADATA_KEY: identified.to_json()})
    onnx.checker.check_model(model)
    return model


def make_contract(method: str, bits: int, *, source: str) -> EncoderContract:
    return EncoderContract(
        bits=bits,
        image_size=SIZE,
        resample="bilinear",
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        method=method,
        backbone="mean_colour",
        weights="none",
        weights_sha256="0" * 64,
        backbone_sha256="1" * 64,
        data_set="folder",
        split_sha256="5" * 64,
        source_sha256=source,
        libraries="torch 2.9.1",
    )
