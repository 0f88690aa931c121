"""The exported graph is the network, whole, anonymous and the same wherever it is exported."""

import os
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from nsh.backbones.networks import Backbone
from nsh.core.codes import pack
from nsh.core.contract import METADATA_KEY, EncoderContract
from nsh.errors import ExportError
from nsh.export import canonical, cut, graph
from nsh.serving.session import open_session

ROOT = Path(__file__).parents[2]
EXPORT = """
import hashlib, sys, torch
from torch import nn
from nsh.backbones.networks import Backbone
from nsh.core.contract import PROVENANCE, EncoderContract
from nsh.core.identity import read_contract
from nsh.export import graph
from nsh.system.code import code_digest

def network():
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Backbone(layers, name="mobilenet_v2", dim=8, image_size=32)

torch.manual_seed(0)
backbone = graph.export_backbone(network(), image_size=32)
provenance = dict.fromkeys(PROVENANCE, "") | {"source_sha256": code_digest(["nsh.export.graph"])}
scale = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
contract = EncoderContract(bits=4, image_size=32, resample="bilinear", **scale, **provenance)
encoder = graph.to_bytes(graph.join_head(backbone, nn.Linear(8, 4), contract))
found = read_contract(encoder, name="encoder.onnx")
print(hashlib.sha256(graph.to_bytes(backbone)).hexdigest(), found.identity, found.source_sha256)
"""


def axes(value: onnx.ValueInfoProto) -> list[str | int]:
    return [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]


def element(value: onnx.ValueInfoProto) -> int:
    return value.type.tensor_type.elem_type


def test_the_encoder_keeps_the_contract_of_inputs_and_outputs(encoder_model):
    uint8, float32 = onnx.TensorProto.UINT8, onnx.TensorProto.FLOAT
    found = [(v.name, element(v), axes(v)) for v in [*encoder_model.graph.input, *encoder_model.graph.output]]
    assert found == [
        ("image", uint8, ["n", 64, 64, 3]),
        ("code", uint8, ["n", 2]),
        ("logit", float32, ["n", 12]),
        ("embedding", float32, ["n", 1280]),
    ]
    onnx.checker.check_model(encoder_model, full_check=True)


def test_the_contract_travels_in_the_metadata(encoder_model, contract):
    [prop] = encoder_model.metadata_props
    assert prop.key == METADATA_KEY
    found = EncoderContract.from_json(prop.value)
    assert found == replace(contract, identity=found.identity)


def test_the_backbone_is_taken_over_node_for_node(encoder_model, backbone_model):
    whole, alone = onnx.ModelProto(), onnx.ModelProto()
    whole.CopyFrom(encoder_model)
    alone.CopyFrom(backbone_model)
    canonical.canonicalise(alone)
    nodes, weights = len(alone.graph.node), len(alone.graph.initializer)
    assert nodes == len(backbone_model.graph.node)
    del whole.graph.node[nodes:], whole.graph.initializer[weights:]
    assert whole.graph.node == alone.graph.node
    assert whole.graph.initializer == alone.graph.initializer
    numbers = [{weight.raw_data for weight in model.graph.initializer} for model in (whole, backbone_model)]
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("batch", [1, 2, 7, 64])
def test_every_batch_size_gives_the_embedding_of_the_backbone_alone(encoder_model, backbone_model, photographs, batch):
    images = photographs[:batch]
    alone = open_session(graph.to_bytes(backbone_model), threads=1)
    whole = open_session(graph.to_bytes(encoder_model), threads=1)
    code, logit, embedding = whole.run(["code", "logit", "embedding"], {"image": images})
    assert np.array_equal(embedding, alone.run(None, {"image": images})[0])
    assert code.dtype == np.uint8
    assert np.array_equal(code, pack(logit > 0))


def test_normalisation_is_inside_and_is_torchvisions(trained, backbone_model, photographs):
    from torchvision.transforms import v2

    pixels = v2.functional.to_dtype(torch.from_numpy(photographs[:4]).permute(0, 3, 1, 2), torch.float32, scale=True)
    normalised = v2.functional.normalize(pixels, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    with torch.no_grad():
        expected = trained.backbone(normalised).numpy()
    [found] = open_session(graph.to_bytes(backbone_model), threads=1).run(None, {"image": photographs[:4]})
    assert expected.std() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_no_trace_of_the_exporting_machine_is_left(encoder_model):
    content = graph.to_bytes(encoder_model)
    here = [str(Path.home()), str(Path.cwd()), sys.prefix, "site-packages", "conftest", "stack_trace", "pkg.torch"]
    assert [word for word in here if word.encode() in content] == []
    assert (encoder_model.producer_name, encoder_model.producer_version) == ("nsh", "")


def edit_code(folder: Path) -> None:
    """Write a comment into every file, and rename a function of core."""
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8").replace("code_bytes", "length_of_code")
        path.write_text(f"# edited\n{text}", encoding="utf-8")


def test_another_process_with_edited_code_exports_the_same_bytes_and_the_same_identity(tmp_path, capsys):
    here, there = tmp_path / "one.py", tmp_path / "another folder" / "export.py"
    shutil.copytree(ROOT / "src" / "nsh", there.parent / "nsh")
    edit_code(there.parent / "nsh")
    here.write_text(EXPORT)
    there.write_text("\n" + EXPORT)  # other line numbers, too
    runpy.run_path(str(here))
    environment = os.environ | {"PYTHONPATH": str(there.parent)}
    run = subprocess.run([sys.executable, there], env=environment, capture_output=True, text=True, check=True)
    backbone, identity, source = run.stdout.split()[-3:]
    expected = capsys.readouterr().out.split()[-3:]
    assert [backbone, identity] == expected[:2]
    assert source != expected[2]


class Given(nn.Module):
    """A head whose logits are the first `bits` values of the embedding."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def forward(self, embedding: torch.Tensor) -> torch.Tensor:
        return embedding[:, : self.bits] * 1.0


@pytest.mark.parametrize("bits", [1, 8, 12, 32])
def test_the_graph_packs_as_the_one_bit_rule_says(bits):
    module = graph.EmbeddingToCode(Given(bits), bits=bits)
    model = graph._export(module, torch.zeros(2, 40), input_name="embedding", output_names=["code", "logit"])
    logit = np.random.default_rng(bits).normal(size=(200, 40)).astype(np.float32)
    logit[0], logit[1], logit[2], logit[3] = 0, -0.0, 1, np.finfo(np.float32).smallest_subnormal
    code, found = open_session(graph.to_bytes(model), threads=1).run(["code", "logit"], {"embedding": logit})
    assert np.array_equal(found[4:], logit[4:, :bits])
    assert np.array_equal(code[4:], pack(logit[4:, :bits] > 0))
    assert not code[:2].any(), "a logit of zero gives the bit 0"
    assert np.array_equal(code[2:3], pack(np.ones((1, bits), bool)))


def test_a_first_bit_alone_is_128():
    module = graph.EmbeddingToCode(Given(12), bits=12)
    logit = -torch.ones(1, 12)
    logit[0, 0] = 1
    assert module(logit)[0].tolist() == [[128, 0]]


def test_the_caller_keeps_his_network_in_its_mode():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    backbone = Backbone(network, name="mobilenet_v2", dim=4, image_size=8)
    network.train()
    graph.export_backbone(backbone, image_size=8)
    assert network.training
    assert network[1].num_batches_tracked == 0


def test_a_head_of_another_length_is_refused(backbone_model, contract):
    with pytest.raises(ExportError, match=r"shape \(16,\), the contract says \(12,\)"):
        graph.join_head(backbone_model, nn.Linear(1280, 16), contract)
    with pytest.raises(ExportError, match="embeddings of length 1280"):
        graph.join_head(backbone_model, nn.Linear(512, 12), contract)


def test_a_graph_over_two_gigabytes_is_refused(backbone_model, monkeypatch):
    monkeypatch.setattr(graph, "SIZE_LIMIT", 1000)
    with pytest.raises(ExportError, match="one ONNX file holds 1,000 at most"):
        graph._checked(backbone_model)


def test_the_file_is_one_and_can_be_moved_alone(encoder_path, photographs, tmp_path):
    assert [path.name for path in encoder_path.parent.iterdir()] == ["encoder.onnx"]
    moved = tmp_path / "elsewhere" / "mine.onnx"
    moved.parent.mkdir()
    moved.write_bytes(encoder_path.read_bytes())
    first = open_session(encoder_path, threads=1).run(["code"], {"image": photographs[:3]})[0]
    assert np.array_equal(first, open_session(moved, threads=1).run(["code"], {"image": photographs[:3]})[0])


def test_the_cut_gives_the_codes_of_the_whole(encoder_path, photographs):
    whole = open_session(encoder_path, threads=1)
    code, logit, embedding = whole.run(["code", "logit", "embedding"], {"image": photographs[:64]})
    part = open_session(cut.head_part(encoder_path), threads=1)
    assert [value.name for value in part.get_inputs()] == ["embedding"]
    found = part.run(["code", "logit"], {"embedding": embedding})
    assert np.array_equal(found[0], code)
    assert np.array_equal(found[1], logit)
    assert len(cut.head_part(encoder_path)) < encoder_path.stat().st_size / 20


def test_what_is_no_encoder_is_not_cut(tmp_path, backbone_model):
    with pytest.raises(ExportError, match="is no encoder"):
        cut.head_part(tmp_path / "missing.onnx")
    graph.save(backbone_model, tmp_path / "backbone.onnx")
    with pytest.raises(ExportError, match="is no encoder"):
        cut.head_part(tmp_path / "backbone.onnx")
