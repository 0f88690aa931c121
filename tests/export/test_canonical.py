"""Two exports of one head are one encoder, whatever code and library exported them; another number is another one."""

import copy
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from nsh.core.identity import identity_of, read_contract
from nsh.core.manifest import read_codes
from nsh.export import graph
from nsh.export.canonical import canonicalise
from nsh.serving.arguments import list_images
from nsh.serving.bulk import encode_files
from nsh.serving.encoder import Encoder
from nsh.serving.index import Index
from nsh.serving.index.engine import check_encoder
from nsh.serving.session import open_session


def exported_otherwise(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph as another exporter would write it: other names, notes and order of weights."""
    other = copy.deepcopy(model)
    ends = {value.name for value in (*other.graph.input, *other.graph.output)}
    for node in other.graph.node:
        node.name, node.doc_string = f"a_node_of_{node.op_type}", "exported on a rainy day"
        node.input[:] = [name if name in ends or not name else f"other/{name}" for name in node.input]
        node.output[:] = [name if name in ends or not name else f"other/{name}" for name in node.output]
        helper.set_model_props(node, {"stack": "trace"})
    weights = [copied_weight(weight, f"other/{weight.name}") for weight in reversed(other.graph.initializer)]
    other.graph.ClearField("initializer")
    other.graph.initializer.extend([*weights, numpy_helper.from_array(np.zeros(3), "unused")])
    other.graph.ClearField("value_info")
    other.doc_string, other.producer_name = "another document", "another exporter"
    other.opset_import.extend(list(other.opset_import))
    return other


def copied_weight(weight: onnx.TensorProto, name: str) -> onnx.TensorProto:
    other = copy.deepcopy(weight)
    other.name, other.doc_string = name, "a weight"
    return other


def test_names_notes_and_order_of_weights_leave_no_trace(encoder_model, photographs):
    other = exported_otherwise(encoder_model)
    assert other.graph != encoder_model.graph
    canonicalise(other)
    assert other.graph == encoder_model.graph
    assert list(other.opset_import) == list(encoder_model.opset_import)
    codes = [
        open_session(graph.to_bytes(one), threads=1).run(None, {"image": photographs[:2]})
        for one in (other, encoder_model)
    ]
    assert all(np.array_equal(*pair) for pair in zip(*codes, strict=True))


def test_a_canonical_graph_stays_as_it_is(encoder_model):
    again = copy.deepcopy(encoder_model)
    canonicalise(again)
    assert again.graph == encoder_model.graph


def test_every_weight_attribute_and_edge_counts(encoder_model, contract):
    """Each one is changed by itself, in the graph without the large weights, which the identity does not look into."""
    small = copy.deepcopy(encoder_model)
    for weight in small.graph.initializer:
        weight.raw_data = weight.raw_data[:8]
    known = {identity_of(graph.to_bytes(small), contract)}
    found = [identity_of(graph.to_bytes(mutation), contract) for mutation in mutations(small)]
    assert len(found) > 300
    assert len(known.union(found)) == 1 + len(found)


def mutations(model: onnx.ModelProto):
    for place, weight in enumerate(model.graph.initializer):
        other = copy.deepcopy(model)
        other.graph.initializer[place].raw_data = bytes([weight.raw_data[0] ^ 1]) + weight.raw_data[1:]
        yield other
    for place, node in enumerate(model.graph.node):
        other = copy.deepcopy(model)
        other.graph.node[place].op_type = "Relu6"
        yield other
        for number, attribute in enumerate(node.attribute):
            other = copy.deepcopy(model)
            other.graph.node[place].attribute[number].CopyFrom(helper.make_attribute(attribute.name, [7, 7, 7]))
            yield other
    other = copy.deepcopy(model)
    other.opset_import[0].version += 1
    yield other
    other = copy.deepcopy(model)
    other.graph.output.reverse()
    yield other


def branching(prefix: str, *, bias: float) -> onnx.ModelProto:
    """x + weight or x - weight, by the sign of its sum; the branches read values of the whole graph."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "y"))
    inner = helper.make_tensor_value_info(f"{prefix}inner", TensorProto.FLOAT, [3])
    branches = {
        name: helper.make_graph(
            [helper.make_node(kind, ["x", f"{prefix}weight"], [inner.name])], prefix + name, [], [inner]
        )
        for name, kind in (("then_branch", "Add"), ("else_branch", "Sub"))
    }
    nodes = [
        helper.make_node("ReduceSum", ["x"], [f"{prefix}sum"], keepdims=0),
        helper.make_node("Greater", [f"{prefix}sum", f"{prefix}zero"], [f"{prefix}positive"]),
        helper.make_node("If", [f"{prefix}positive"], ["y"], **branches),
    ]
    weights = {"weight": np.array([1, 2, bias], np.float32), "zero": np.float32(0)}
    tensors = [numpy_helper.from_array(np.asarray(value), prefix + name) for name, value in weights.items()]
    whole = helper.make_graph(nodes, "branches", [x], [y], tensors)
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_values_of_branches_are_renamed_with_the_whole_graph():
    models = [branching("a_", bias=3), branching("another/", bias=3), branching("a_", bias=4)]
    x = np.array([1, 1, -1], np.float32)
    for model in models:
        before = open_session(model.SerializeToString(), threads=1).run(None, {"x": x})[0]
        canonicalise(model)
        onnx.checker.check_model(model, full_check=True)
        assert np.array_equal(open_session(model.SerializeToString(), threads=1).run(None, {"x": x})[0], before)
    assert models[0] == models[1] != models[2]


@pytest.fixture(scope="module")
def exports(backbone_model, trained, contract, tmp_path_factory):
    """One head, exported by two versions of the source and of the libraries."""
    folder = tmp_path_factory.mktemp("exports")
    later = replace(contract, source_sha256="e" * 64, libraries="torch 3.0.0", data_set="renamed")
    graph.save(graph.join_head(backbone_model, trained.head, contract), folder / "first.onnx")
    graph.save(graph.join_head(exported_otherwise(backbone_model), trained.head, later), folder / "second.onnx")
    return folder / "first.onnx", folder / "second.onnx"


def test_codes_and_indexes_of_one_export_are_valid_for_the_next(exports, photographs, tmp_path):
    first, second = (Encoder(path, threads=1) for path in exports)
    assert exports[0].read_bytes() != exports[1].read_bytes()
    assert first.contract.source_sha256 != second.contract.source_sha256
    assert first.identity == second.identity
    (tmp_path / "photos").mkdir()
    for row in range(3):
        Image.fromarray(photographs[row]).save(tmp_path / "photos" / f"{row}.png")
    images = list_images([str(tmp_path / "photos")])
    assert encode_files(first, images, out=tmp_path / "codes").new == 3
    Image.fromarray(photographs[3]).save(tmp_path / "photos" / "3.png")
    images = list_images([str(tmp_path / "photos")])
    summary = encode_files(second, images, out=tmp_path / "codes")
    assert (summary.kept, summary.new, summary.gone) == (3, 1, 0)
    codes = read_codes(tmp_path / "codes")
    assert np.array_equal(codes.codes, first.encode(list(photographs[:4])))
    index = Index.create(tmp_path / "index", bits=first.contract.bits, encoder_identity=first.identity)
    index.add(codes.ids[:3], codes.codes[:3], encoder_identity=codes.header["encoder_identity"])
    check_encoder(index, second.identity)
    assert index.add(codes.ids[3:], second.encode([photographs[3]]), encoder_identity=second.identity) == 1


def test_another_head_is_another_encoder(exports, backbone_model, trained, contract):
    first = read_contract(exports[0].read_bytes(), name="first")
    head = copy.deepcopy(trained.head)
    with torch.no_grad():
        head.bias[0] += 1e-3
    other = graph.to_bytes(graph.join_head(backbone_model, head, contract))
    assert read_contract(other, name="other").identity != first.identity
